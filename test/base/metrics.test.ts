import { expect, test } from 'vitest'
import { createMetrics, METRICS } from '../../src/base/metrics.ts'
import { ENDED_STATES, OUTCOMES } from '../../src/domain/lifecycle.ts'
import { TIMEOUT_ERRORS } from '../../src/domain/policy.ts'

test('every metric is named after its unit: a counter ends in total, a histogram in seconds', () => {
  for (const { name, type } of Object.values(METRICS)) {
    expect(name).toMatch(/^switchboard_[a-z_]+$/)
    expect(name.endsWith('_total')).toBe(type === 'counter')
    if (type === 'histogram') expect(name).toMatch(/_seconds$/)
  }
})

test('no metric has an id for a label', () => {
  const labels = new Set(Object.values(METRICS).flatMap(({ labels }) => [...labels]))
  const fixed = [
    'queue',
    'state',
    'outcome',
    'sweep',
    'worker',
    'kind',
    'surface',
    'method',
    'timeout',
    'limit',
  ]
  expect([...labels].filter((label) => ![...fixed, 'code', 'version'].includes(label))).toEqual([])
})

test('every metric of the list is in the scrape, with its help', async () => {
  const text = await createMetrics().registry.metrics()
  for (const { name, help, type } of Object.values(METRICS)) {
    expect(text).toContain(`# HELP ${name} ${help}\n# TYPE ${name} ${type}`)
  }
  expect(text).toContain('process_cpu_seconds_total')
})

test('the counters of a new queue are there at zero from the first scrape', async () => {
  const metrics = createMetrics()
  metrics.seedQueue('mail')
  const text = await metrics.registry.metrics()
  const zeros = text.split('\n').filter((line) => line.includes('queue="mail"'))
  expect(zeros.filter((line) => !line.endsWith(' 0'))).toEqual([])
  expect(zeros).toHaveLength(9 + TIMEOUT_ERRORS.length + ENDED_STATES.length + OUTCOMES.length)
  expect(zeros).toContain('switchboard_todo_leases_expired_total{queue="mail"} 0')
})

test('seeding a queue again leaves what was counted', async () => {
  const metrics = createMetrics()
  metrics.todosSent.inc({ queue: 'mail' })
  metrics.seedQueue('mail')
  expect((await metrics.todosSent.get()).values).toMatchObject([{ value: 1 }])
})

test('two registries in one process do not count for each other', async () => {
  const [one, other] = [createMetrics(), createMetrics()]
  one.authFailures.inc()
  expect((await other.authFailures.get()).values).toMatchObject([{ value: 0 }])
})
