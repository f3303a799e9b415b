/**
 * In 0.1 the client made a task's id. A task has an id of the server's here, too: one that follows
 * from the caller, the queue and the client's id. So nothing has to be kept to find the task again,
 * two callers never mean the same task by the same id, and two sends of one id collide in the
 * database, where one of them makes the task.
 */
import { createHash } from 'node:crypto'
import { Refusal } from '../../domain/errors.ts'
import type { QueueCall } from '../wire/method.ts'

/** Of the names below, and of no others (RFC 9562, 5.5). */
const NAMESPACE = Buffer.from('6f1c2f0e5d0b4a3c9a4e0c8b7d21e6a5', 'hex')

const uuidOf = (name: string): string => {
  const bytes = createHash('sha1').update(NAMESPACE).update(name).digest().subarray(0, 16)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x50, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

/** The id here of the task that this caller calls `clientsId`. Refuses: forbidden. */
export const taskIdOf = ({ caller, queue }: QueueCall, clientsId: string): string => {
  if (caller.kind !== 'endpoint') throw new Refusal('forbidden')
  return uuidOf(JSON.stringify([caller.endpoint.id, queue.name, clientsId]))
}
