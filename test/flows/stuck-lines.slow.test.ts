// Conversations that cannot go on, more of them than the sweep reads in one page.
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'

const app = await startApp({ reapMs: 3_600_000 })
await app.queue('serial')

test('lines that cannot go on, more than a page of them, hold up no other line and no sweep', async () => {
  const stall = (contexts: string, count: number) =>
    app.sql<{ id: string }>(
      `insert into todos (id, queue, context_id, state, max_attempts, line)
      select gen_random_uuid(), 'serial', $1, 'pending', 5, md5($1 || n)::uuid
      from generate_series(1, $2::int) n returning id`,
      [contexts, count],
    )
  // Before there is a line: the node's own first sweep may run at any moment.
  await app.sql(`
    create function refuse() returns trigger language plpgsql as $$
      begin raise exception 'poisoned'; end $$;
    create trigger poison before update on todos for each row
      when (old.context_id = 'poisoned') execute function refuse()`)
  await stall('poisoned', 210)
  await stall('well', 20)
  const moved = async (context: string) => {
    const [row] = await app.sql<{ n: number }>(
      'select count(*)::int as n from todos where context_id = $1 and front',
      [context],
    )
    return row!.n
  }
  try {
    expect(await app.sweep.reap()).toBe(0)
    expect(await moved('well')).toBe(20)
    expect(await moved('poisoned')).toBe(0)
  } finally {
    await app.sql('drop trigger poison on todos; drop function refuse')
  }
  await app.sql(`delete from todos where context_id in ('poisoned', 'well')`)
})
