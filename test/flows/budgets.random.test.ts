/**
 * Families that spend all at once, through two nodes: calls that are made again, attempts that fail, and
 * budgets that run out. What is drawn depends on the seed, what it meets on the moment: RANDOM_SEED
 * repeats the former.
 */
import { afterAll, expect, test } from 'vitest'
import { startApp, startNode } from '../support/app.ts'
import { type Answer, agentClient } from '../support/clients/actors.ts'
import { randomOf } from '../support/seeded.ts'
import { operate, saying } from '../support/steps.ts'
import { runs } from '../support/tier.ts'

const SEED = Number(process.env.RANDOM_SEED ?? Date.now() % 1_000_000)
const FAMILIES = runs(4, 40)
const SPENDERS = 8
const SPENDS = 12
const KINDS = ['tokens', 'cents', 'calls'] as const
type Kind = (typeof KINDS)[number]
type Amounts = Partial<Record<Kind, number>>

const app = await startApp({ reapMs: 3_600_000 })
const other = await startNode(app.databaseUrl, { reapMs: 3_600_000 })
afterAll(() => other.stop())
await app.queue('kin', { contexts: 'parallel', maxAttempts: 50 })
const boss = await app.vend(['work', 'send'], ['kin'])
const nodes = [app, other].map(({ url }) => agentClient(url, boss.token))

interface Member {
  id: string
  parent: Member | null
  held: { id: string; fence: string }
}

/** What was counted for one todo, by the key of its call: the answers say which. */
interface Counted {
  member: Member
  amounts: Amounts
  ended: boolean
}

const random = randomOf(SEED)
const below = (most: number): number => Math.floor(random() * most)
const amountsBelow = (most: number): Amounts => {
  const kinds = KINDS.filter(() => random() < 0.6)
  return Object.fromEntries(
    (kinds.length > 0 ? kinds : [KINDS[0]]).map((kind) => [kind, below(most)]),
  )
}
const sumOf = (all: readonly Counted[]): Amounts => {
  const sum: Amounts = {}
  for (const { amounts } of all) {
    for (const kind of KINDS) {
      const amount = amounts[kind]
      if (amount !== undefined) sum[kind] = (sum[kind] ?? 0) + amount
    }
  }
  return sum
}
const isIn = (member: Member | null, family: Member): boolean =>
  member !== null && (member === family || isIn(member.parent, family))

/** A parent with children and grandchildren, each with a budget of its own, with its parent's, or with none. */
const makeFamily = async (): Promise<Member[]> => {
  const [one] = nodes
  await operate(app, 'todos.send', {
    queue: 'kin',
    message: saying('root'),
    ...(random() < 0.9 && { budget: amountsBelow(200) }),
  })
  const root = await one!.claim({ queues: ['kin'] })
  const members: Member[] = [{ id: root.id, parent: null, held: root.held }]
  while (members.length < 6) {
    const parent = members[below(members.length)]!
    const asked = random() < 0.5 ? { budget: amountsBelow(60) } : {}
    const child = { queue: 'kin', message: saying('part'), ...asked }
    const params = { ...parent.held, children: [child] }
    const made = await one!
      .call('todos.fork', params)
      .catch(() =>
        one!.call('todos.fork', { ...params, children: [{ ...child, budget: undefined }] }),
      )
    const claimed = await one!.claim({ queues: ['kin'] })
    expect(claimed.id).toBe(made.children[0].id)
    members.push({ id: claimed.id, parent, held: claimed.held })
  }
  return members
}

const spendAtRandom = async (members: Member[], name: string): Promise<Counted[]> => {
  const counted = new Map<string, Counted>()
  for (let n = 0; n < SPENDS; n++) {
    const member = members[below(members.length)]!
    const { held } = member
    if (random() < 0.1) {
      // The next attempt has another fence: calls under way may lose against it.
      const error = { code: 'x', message: 'x' }
      await nodes[0]!
        .call('todos.fail', { ...held, error, retryInSeconds: 0 })
        .then(() => nodes[0]!.call('todos.claim', {}))
        .then(({ todos: [again] }) => {
          const whose = members.find(({ id }) => id === again?.id)
          if (whose) whose.held = { id: again.id, fence: again.fence }
        })
        .catch(() => {})
      continue
    }
    const amounts = amountsBelow(20)
    const params = { ...held, ...amounts, key: `${name}/${n}` }
    const calls = nodes.slice(0, random() < 0.3 ? 2 : 1).map((node) =>
      node.call('todos.spend', params).then(
        () => 'counted',
        ({ error }: Answer) => error?.data?.reason,
      ),
    )
    for (const outcome of await Promise.all(calls)) {
      expect(['counted', 'budget_exhausted', 'stale_fence']).toContain(outcome)
      if (outcome === 'stale_fence') continue
      const ended = outcome === 'budget_exhausted'
      counted.set(`${held.fence}/${n}`, { member, amounts, ended })
    }
  }
  return [...counted.values()]
}

test(`sums are right in every row, and nothing goes on past a budget (seed ${SEED})`, async () => {
  for (let round = 0; round < FAMILIES; round++) {
    const members = await makeFamily()
    const names = Array.from({ length: SPENDERS }, (_, n) => `${round}/${n}`)
    const all = (await Promise.all(names.map((name) => spendAtRandom(members, name)))).flat()
    for (const member of members) {
      const { budget, spent, state, result } = await operate(app, 'todos.show', { id: member.id })
      const own = all.filter((each) => isIn(each.member, member))
      expect(spent ?? {}, `${member.id} of ${round}`).toEqual(sumOf(own))
      const within = sumOf(own.filter(({ ended }) => !ended))
      for (const kind of KINDS) {
        if (budget?.[kind] !== undefined)
          expect(within[kind] ?? 0).toBeLessThanOrEqual(budget[kind])
      }
      const ended = all.some((each) => each.member === member && each.ended)
      expect(state === 'failed' && result?.error === 'budget_exhausted').toBe(ended)
    }
    await operate(app, 'todos.cancel', { id: members[0]!.id }).catch(() => {})
    await app.sql(`update todos set state = 'canceled', finished_at = now(), owner = null,
      lease_expires_at = null, lease_probe_at = null, due_at = null, next_retry_at = null
      where finished_at is null`)
  }
})
