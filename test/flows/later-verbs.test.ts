/** While nodes are updated one by one, an older node reads what a newer one wrote. */
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient, resumeAfter } from '../support/clients/actors.ts'
import { openBoard, operate } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk')

test('an event whose verb is not known is told as the state that it says', async () => {
  const a2a = a2aClient(app.url, 'desk', client.token)
  const worker = agentClient(app.url, agent.token)
  const { id } = await a2a.submit('x')
  const { held } = await worker.claim()
  await app.sql(`update events set verb = 'verbOfLater' where todo_id = $1 and verb = 'claim'`, [
    id,
  ])
  await worker.call('todos.complete', held)

  const stream = await a2a.stream('SubscribeToTask', { id }, { headers: resumeAfter('1') })
  const states = (await stream.rest()).map(({ json }) => json.result.statusUpdate.status.state)
  expect(states).toEqual(['TASK_STATE_WORKING', 'TASK_STATE_COMPLETED'])

  const board = await openBoard(app, 'queue=desk&after=0')
  const frames = await board.until(({ json }) => json.id === id && json.to === 'done')
  board.close()
  expect(frames.filter(({ event }) => event === 'transition').map(({ json }) => json.verb)).toEqual(
    ['send', 'verbOfLater', 'complete'],
  )
  const { events } = await operate(app, 'todos.show', { id })
  expect(events.map(({ verb }: { verb: string }) => verb)).toContain('verbOfLater')
})
