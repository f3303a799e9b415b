import { test } from 'vitest'
import { captureClaim, captureComplete } from '../bench/statements.ts'
import { startApp } from './support/app.ts'
import { withClient } from './support/database/database.ts'
import { PLANNER } from '../src/store/postgres/database.ts'

const app = await startApp({ reapMs: 600000, placeMs: 600000, countMs: 600000 })
test('explain', async () => {
  await app.queue('bench')
  const E = '00000000-0000-0000-0000-00000000000a'
  await app.sql(`insert into endpoints (id, name, token_sha256, queues, verbs) values ('${E}', 'b', sha256('bench'), '{bench}', '{work}')`)
  const has = (await app.sql(`select 1 from information_schema.columns where table_name='todos' and column_name='document_bytes'`)).length > 0
  const stock = async () => {
  await app.sql('truncate todos, messages, events, attempts, details')
  await app.sql(`with made as (insert into todos (id, queue, context_id, max_attempts, due_at ${has ? ', documents, document_bytes' : ''})
      select gen_random_uuid(), 'bench', 'stock ' || i, 5, now() ${has ? ', 1, 1000' : ''} from generate_series(1, 4000) i returning id, context_id),
    said as (insert into messages (todo_id, seq, message_id, role, message ${has ? ', bytes' : ''})
      select id, 1, 'm', 'user', ('{"a":"' || repeat('x', 1000) || '"}')::json ${has ? ', 1000' : ''} from made)
    insert into events (todo_id, seq, queue, context_id, verb, to_state, attempt, fence, at)
    select id, 1, 'bench', context_id, 'send', 'pending', 0, 0, now() from made`)
  await app.sql('vacuum analyze todos, messages, events, attempts')
  }
  await withClient(app.databaseUrl, async (c) => {
    for (const set of PLANNER.split('-c ').map((s) => s.trim()).filter(Boolean)) { const [k, v] = set.split('='); await c.query(`set ${k} = ${v}`) }
    for (const limit of [1, 50]) {
      await stock()
      const claim = await captureClaim(E, limit)
      const q = { name: claim.name + limit, text: claim.text, values: [...claim.values] }
      const times: number[] = []
      for (let i = 0; i < 40; i += 1) {
        const at = performance.now()
        const r = await c.query(q)
        times.push(performance.now() - at)
        if (r.rowCount !== limit) console.log('rows', r.rowCount)
      }
      times.sort((a, b) => a - b)
      console.log('claim', limit, 'min', times[0]!.toFixed(2), 'q1', times[10]!.toFixed(2), 'median', times[20]!.toFixed(2))
      if (limit === 50 && process.env.PLAN) {
        await c.query(`prepare x as ${claim.text}`)
        const lit = claim.values.map((v) => v === null ? 'null' : Array.isArray(v) ? `'{${v.join(',')}}'` : `'${v}'`).join(', ')
        const { rows } = await c.query(`explain (analyze, buffers off, timing on) execute x(${lit})`)
        console.log(rows.map((r) => r['QUERY PLAN']).join('\n'))
      }
    }
  })
}, 100000)
