/**
 * What answered a request for authorisation may be a credential. Who asked for it and who sent it
 * read it; everybody else, on every surface, reads this instead.
 */
import { defined } from '../../base/defined.ts'
import type { Message, Part, StoredMessage, TodoView } from '../../domain/todo.ts'

const HIDDEN: Part[] = [{ text: '[an answer to a request for authorisation is not shown]' }]

/** Nothing the sender put there is kept but the ids. */
const hidden = ({ messageId, contextId, taskId, role }: Message): Message =>
  defined<Message>({ messageId, contextId, taskId, role, parts: HIDDEN })

const withoutSecret = (stored: StoredMessage): StoredMessage =>
  stored.secret ? { ...stored, message: hidden(stored.message) } : stored

export const withoutSecrets = (view: TodoView): TodoView => ({
  ...view,
  messages: view.messages.map(withoutSecret),
})
