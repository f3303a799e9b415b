import { expect, test } from 'vitest'
import { createCircuit } from '../../src/background/worker-circuit.ts'

const at = (failures: number, windowMs: number) => {
  let now = 0
  const circuit = createCircuit({ failures, windowMs }, () => now)
  return {
    ...circuit,
    pass: (ms: number) => {
      now += ms
    },
  }
}

test('it opens at so many failures within the window, and not at as many over a longer time', () => {
  const circuit = at(3, 1000)
  for (let i = 0; i < 10; i += 1) {
    circuit.fail()
    circuit.pass(600)
    expect(circuit.failing()).toBe(false)
  }
  circuit.fail()
  circuit.fail()
  expect(circuit.failing()).toBe(true)
})

test('it closes by itself when the failures have grown old, and at once by a sign of health', () => {
  const circuit = at(2, 1000)
  circuit.fail()
  circuit.fail()
  circuit.pass(1001)
  expect(circuit.failing()).toBe(false)
  circuit.fail()
  circuit.fail()
  circuit.ok()
  expect(circuit.failing()).toBe(false)
  circuit.fail()
  expect(circuit.failing()).toBe(false)
})

test('signs of health between failures do not keep it closed', () => {
  const circuit = at(3, 1000)
  for (let i = 0; i < 3; i += 1) {
    circuit.ok()
    circuit.fail()
  }
  expect(circuit.failing()).toBe(true)
})

test('a failure that is repeated for ever is forgotten after one window', () => {
  const circuit = at(3, 1000)
  for (let i = 0; i < 100_000; i += 1) circuit.fail()
  circuit.pass(1001)
  expect(circuit.failing()).toBe(false)
})
