import { expect, test } from 'vitest'
import {
  DISPOSITIONS,
  dispositionOf,
  ENDED_STATES,
  phaseOf,
  rule,
  STATE_NAMES,
  STATES,
  type State,
  settled,
  VERB_NAMES,
  VERBS,
} from '../../src/domain/lifecycle.ts'

const landings = (verb: (typeof VERB_NAMES)[number], from: State): State[] => {
  const { to, atCap } = rule(verb)
  if (to === 'same') return [from]
  if (to === 'as asked') return ['input-required', 'auth-required']
  return atCap ? [to, atCap] : [to]
}

test('every state can be reached from pending', () => {
  const reached = new Set<State>(['pending'])
  for (let grown = true; grown; ) {
    grown = false
    for (const verb of VERB_NAMES) {
      for (const from of rule(verb).from) {
        if (!reached.has(from)) continue
        for (const to of landings(verb, from)) {
          grown ||= !reached.has(to)
          reached.add(to)
        }
      }
    }
  }
  expect([...reached].sort()).toEqual([...STATE_NAMES].sort())
})

test('every state that is not an end can be left for an end, by somebody present or by the clock', () => {
  for (const state of STATE_NAMES.filter((name) => STATES[name] !== 'ended')) {
    const out = VERB_NAMES.filter((verb) => rule(verb).from.includes(state))
    expect(out).toContain('cancel')
    if (STATES[state] !== 'waiting')
      expect(out.some((verb) => rule(verb).by === 'server')).toBe(true)
  }
})

test('an end is never left, but for a failure whose retry is due', () => {
  for (const verb of VERB_NAMES) {
    const left = rule(verb).from.filter((state) => STATES[state] === 'ended')
    expect(left.filter((state) => state !== 'failed')).toEqual([])
  }
  expect(rule('claim').when).toContain('claimable')
  expect(rule('cancel').when).toContain('unfinished')
})

test('every verb of a holder names its fence, and only interrupts outlive the lease', () => {
  for (const verb of VERB_NAMES) {
    const { by, when } = rule(verb)
    if (by !== 'agent' || verb === 'claim') continue
    expect(when.includes('held') || when.includes('holder')).toBe(true)
    expect(when.includes('holder')).toBe(['hold', 'withdraw', 'withdrawLater'].includes(verb))
  }
})

test('the table is the one of the design: from, to, attempt and ready reason of each verb', () => {
  const table = Object.fromEntries(
    VERB_NAMES.map((verb) => {
      const { from, to, attempt, ready } = rule(verb)
      return [verb, `${from.join('|')} > ${to} ${attempt}${ready ? ` ${ready}` : ''}`]
    }),
  )
  expect(table).toEqual({
    claim: 'pending|failed|claimed > claimed open',
    heartbeat: 'claimed > same keep',
    hold: 'input-required|auth-required > same keep',
    progress: 'claimed > same keep',
    say: 'claimed > same keep',
    artifact: 'claimed > same keep',
    spend: 'claimed > same keep',
    exhaust: 'claimed > failed failed',
    fork: 'claimed > same keep',
    adopt: 'pending|claimed|input-required|auth-required|failed > same keep',
    join: 'claimed > pending released',
    interrupt: 'claimed > as asked keep',
    resume: 'input-required|auth-required > claimed keep',
    answer: 'input-required|auth-required > pending released answered',
    // Asking, only after its answer came and while it stands in line to go on.
    message: 'pending|claimed|failed|input-required|auth-required > same keep',
    defer: 'input-required|auth-required > same keep',
    withdraw: 'input-required|auth-required > claimed keep',
    withdrawLater: 'input-required|auth-required > same keep',
    acknowledge: 'claimed > same keep',
    complete: 'claimed > done completed',
    fail: 'claimed > failed failed',
    release: 'claimed > pending released released',
    reject: 'claimed > rejected rejected',
    cancelHeld: 'claimed > canceled canceled',
    cancel: 'pending|claimed|input-required|auth-required|failed > canceled canceled',
    reapLease: 'claimed > pending reaped requeued',
    reapInterrupt: 'input-required|auth-required > pending reaped requeued',
    park: 'input-required|auth-required > same keep',
    timeOut: 'claimed > pending timed_out requeued',
    expire: 'pending|claimed|input-required|auth-required|failed > failed timed_out',
    revoke: 'claimed|input-required|auth-required > pending revoked requeued',
    strand: 'claimed|input-required|auth-required > failed revoked',
    enterLine: 'pending > same keep',
    stepBack: 'pending > same keep',
    unblock: 'pending > same keep unblocked',
    resumeLater: 'input-required|auth-required > claimed keep',
    answerLater: 'input-required|auth-required > pending released answered',
    joined: 'pending > same keep joined',
    joinTimeOut: 'pending > same keep join_timeout',
    comeDue: 'pending|failed > same keep retried',
  })
  expect(VERBS.release.refund && VERBS.answer.refund).toBe(true)
})

test('a failure waits while its retry is scheduled, and is an end without one', () => {
  const at = new Date()
  expect(phaseOf({ state: 'failed', nextRetryAt: at })).toBe('waiting')
  expect(phaseOf({ state: 'failed', nextRetryAt: null })).toBe('ended')
  expect(settled({ state: 'failed', nextRetryAt: at })).toBe(false)
  expect(settled({ state: 'input-required', nextRetryAt: null })).toBe(true)
  expect(settled({ state: 'claimed', nextRetryAt: null })).toBe(false)
  for (const state of ENDED_STATES) expect(settled({ state, nextRetryAt: null })).toBe(true)
})

test('every state a closed attempt can land in has its disposition', () => {
  const all = STATE_NAMES.map((state) => dispositionOf(state, false))
  expect(new Set([...all, dispositionOf('failed', true)])).toEqual(new Set(DISPOSITIONS))
  expect(dispositionOf('pending', false)).toBe('requeued')
  expect(dispositionOf('failed', false)).toBe('dead_lettered')
})
