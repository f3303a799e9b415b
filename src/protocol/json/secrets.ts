/**
 * The answer to an authorization request may be a credential. The agent that asked and the sender
 * can read it; everybody else, on every surface, gets this in its place.
 */
import { defined } from '../../base/defined.ts'
import type { Message, Part, StoredMessage, TodoView } from '../../domain/todo.ts'

const HIDDEN: Part[] = [{ text: '[an answer to a request for authorisation is not shown]' }]

/** Of what the sender put there, only the ids are kept. */
const hidden = ({ messageId, contextId, taskId, role }: Message): Message =>
  defined<Message>({ messageId, contextId, taskId, role, parts: HIDDEN })

export const withoutSecret = (stored: StoredMessage): StoredMessage =>
  stored.secret ? { ...stored, message: hidden(stored.message), request: null } : stored

export const withoutSecrets = (view: TodoView): TodoView => ({
  ...view,
  messages: view.messages.map(withoutSecret),
})
