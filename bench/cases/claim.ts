/**
 * Todos claimed and completed a second, through the store and by bare pg with the same statements,
 * captured: one at a time by 16 workers, and 50 at a time by 4. What lies between the two is the
 * store's own code (aim: the store makes at least 0.8 of pg). pgbench does the same one at a time.
 * Each run drains a fresh stock, so that dead rows of an earlier run slow nobody down.
 */
import type { Lab } from '../lab.ts'
import { hasPgbench, runPgbench, toScript } from '../pgbench.ts'
import type { Case, Sample, Setup, Variant } from '../runner.ts'
import { captureClaim, captureComplete, newMessage, QUEUE } from '../statements.ts'
import { empty, makeQueue } from './send.ts'

export const ENDPOINT = '00000000-0000-0000-0000-00000000000a'
export const WORKERS = 16
/** About as many as a slow machine drains in a second. */
export const SINGLES = 500
const BATCHED = 1500
/** pgbench gives up a client that claims nothing, so that some must be left over. */
const SPARE = 200

export const makeEndpoint = `insert into endpoints (id, name, token_sha256, queues, verbs)
  values ('${ENDPOINT}', 'bench', sha256('bench'), '{${QUEUE}}', '{work}')`

/** Todos to claim, beside whatever there is; their conversations are called `stock …`. */
export const addStock = async (lab: Lab, url: string, count: number): Promise<void> => {
  await lab.sql(
    url,
    `with made as (
      insert into todos (id, queue, context_id, max_attempts, due_at, documents, document_bytes)
      select gen_random_uuid(), '${QUEUE}', 'stock ' || i, 5, now(), 1, octet_length($1)
      from generate_series(1, ${count}) i
      returning id, context_id),
    said as (
      insert into messages (todo_id, seq, message_id, role, message, bytes)
      select id, 1, 'm', 'user', $1::text::json, octet_length($1) from made)
    insert into events (todo_id, seq, queue, context_id, verb, to_state, attempt, fence, at)
    select id, 1, '${QUEUE}', context_id, 'send', 'pending', 0, 0, now() from made`,
    [JSON.stringify(newMessage())],
  )
  await lab.sql(url, 'vacuum analyze todos, messages, events, attempts')
}

/** The same, and nothing else. */
export const stock = async (lab: Lab, url: string, count: number): Promise<void> => {
  await lab.sql(url, empty)
  await addStock(lab, url, count)
}

const byPgbench = async (lab: Lab, url: string): Promise<Variant> => {
  const claim = toScript('claim', await captureClaim(ENDPOINT, 1), {})
  const complete = toScript('complete', await captureComplete(ENDPOINT), {
    id: ':c_id',
    fence: ':c_fence',
  })
  return {
    name: 'pgbench single',
    run: async (seconds) => {
      const each = Math.ceil((seconds * SINGLES) / WORKERS)
      await stock(lab, url, each * WORKERS + SPARE)
      const script = `${claim.script} \\gset c_\n${complete.script};`
      const variables = [...claim.variables, ...complete.variables]
      return { perSecond: await runPgbench(url, script, variables, WORKERS, ['-t', each]) }
    },
  }
}

const open = async (lab: Lab): Promise<Setup> => {
  const url = await lab.database()
  await lab.sql(url, makeQueue)
  await lab.sql(url, makeEndpoint)
  const ours = await lab.start('store')
  const theirs = lab.against ? await lab.start('store', lab.against) : null
  const drain = (
    way: 'store' | 'pg',
    batch: number,
    { process = ours, name = way as string } = {},
  ): Variant => ({
    name: `${name} ${batch === 1 ? 'single' : `batch ${batch}`}`,
    run: async (seconds) => {
      await stock(lab, url, Math.ceil(seconds * (batch === 1 ? SINGLES : BATCHED)))
      const workers = batch === 1 ? WORKERS : 4
      return process.call<Sample>('drain', { way, url, endpoint: ENDPOINT, workers, batch })
    },
  })
  const against = theirs
    ? [1, 50].map((batch) => drain('store', batch, { process: theirs, name: 'against' }))
    : []
  const pgbench = hasPgbench()
  const metric = 'perSecond'
  return {
    variants: [
      drain('store', 1),
      drain('pg', 1),
      ...(pgbench ? [await byPgbench(lab, url)] : []),
      drain('store', 50),
      drain('pg', 50),
      ...against,
    ],
    ratios: [
      { of: 'store single', to: 'pg single', metric },
      { of: 'store batch 50', to: 'pg batch 50', metric },
      ...(pgbench ? [{ of: 'store single', to: 'pgbench single', metric }] : []),
      { of: 'store batch 50', to: 'store single', metric },
      ...against.map(({ name }) => ({ of: name.replace('against', 'store'), to: name, metric })),
    ],
  }
}

export const claim: Case = { name: 'claim', title: 'claim: claimed and completed', open }
