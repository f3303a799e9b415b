/**
 * Links with which somebody without an account answers one question, once. The secret in the
 * address is random and kept as its hash. The answer carries the link's id as its message id, so
 * that it is taken at most once whatever is pressed how often, on whichever node; and that it was
 * taken is read from the conversation and nowhere else.
 */

import { EVERYTHING, watchScope } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import type { TodoView } from '../../domain/todo.ts'
import {
  type AnswerLinkRow,
  addAnswerLink,
  readAnswerLink,
} from '../../store/admin/answer-links.ts'
import type { Database } from '../../store/postgres/database.ts'
import { type AnswerRow, readAnswer } from '../../store/todos/questions.ts'
import { readAnswerSchema, readView } from '../../store/todos/view.ts'
import type { AnswerLinks, LinkedQuestion } from '../contract.ts'
import type { Registry } from '../registry.ts'
import { asks } from '../tasks/questions.ts'
import type { Reply } from '../tasks/reply.ts'
import { hashOf, isSecret, newSecret } from './secret.ts'

const DEFAULT_SECONDS = 86_400

/** Where the answer says who gave it. */
const BY = 'answeredBy'

export interface AnswerLinksParts {
  database: Database
  registry: Pick<Registry, 'queue'>
  reply: Reply
  publicUrl: () => string
}

const PREFIX = 'answer-link-'
const messageIdOf = ({ id }: AnswerLinkRow): string => `${PREFIX}${id}`

const answeredOf = (link: AnswerLinkRow, answer: AnswerRow): LinkedQuestion['answered'] => {
  const here = answer.messageId === messageIdOf(link)
  // Only an answer by a link, this one or another, is taken at its word.
  const linked = answer.sender === null && answer.messageId.startsWith(PREFIX)
  const by = linked ? answer.metadata?.[BY] : answer.sender
  return { by: typeof by === 'string' ? by : null, at: answer.receivedAt, here }
}

const statusOf = (
  link: AnswerLinkRow,
  { todo }: TodoView,
  answer: AnswerRow | null,
): LinkedQuestion['status'] => {
  if (answer) return 'answered'
  if (!asks(todo) || todo.statusSeq !== link.question) return 'changed'
  return link.expired ? 'expired' : 'open'
}

export const createAnswerLinks = (parts: AnswerLinksParts): AnswerLinks => {
  const { database, registry, reply, publicUrl } = parts

  const find = async (secret: string): Promise<AnswerLinkRow | null> =>
    isSecret(secret) ? readAnswerLink(database, hashOf(secret)) : null

  const look = async (link: AnswerLinkRow): Promise<LinkedQuestion | null> => {
    const { todoId: id, question } = link
    const view = await readView(database, id, EVERYTHING, false)
    const asked = view?.messages.find(({ seq }) => seq === question)
    if (!view || !asked) return null
    const [answer, schema, queue] = await Promise.all([
      readAnswer(database, id, question),
      readAnswerSchema(database, id, question),
      registry.queue(view.todo.queue),
    ])
    return {
      status: statusOf(link, view, answer),
      agent: String(queue?.card.name ?? view.todo.queue),
      task: view.messages[0]?.message ?? null,
      asked: asked.message,
      state: view.todo.state,
      schema,
      until: link.expiresAt,
      answered: answer && answeredOf(link, answer),
    }
  }

  return {
    create: async (id, seconds = DEFAULT_SECONDS, caller) => {
      const view = await readView(database, id, watchScope(caller, 'answer'), false)
      if (!view) throw new Refusal('not_found')
      const { todo } = view
      if (!asks(todo)) throw new Refusal('wrong_state', { id, state: todo.state })
      const secret = newSecret()
      const link = await addAnswerLink(database, {
        secret: hashOf(secret),
        todo: id,
        question: todo.statusSeq,
        seconds,
      })
      const url = `${publicUrl().replace(/\/+$/, '')}/answer/${secret}`
      return { url, question: todo.statusSeq, expiresAt: link.expiresAt }
    },

    open: async (secret) => {
      const link = await find(secret)
      return link && look(link)
    },

    answer: async (secret, { parts: said, by }) => {
      const link = await find(secret)
      const question = link && (await look(link))
      if (!link || !question) return null
      if (question.status !== 'open') return { question, taken: false }
      const message = {
        messageId: messageIdOf(link),
        role: 'ROLE_USER' as const,
        parts: said,
        ...(by !== null && { metadata: { [BY]: by } }),
      }
      let taken = false
      try {
        const { receipt } = await reply(
          link.todoId,
          message,
          EVERYTHING,
          null,
          null,
          undefined,
          link.question,
        )
        taken = receipt.outcome !== 'repeated'
      } catch (error) {
        // Answered, taken back or ended in this very moment: the question says which.
        const kinds = ['wrong_state', 'finished', 'not_found']
        if (!(error instanceof Refusal && kinds.includes(error.kind))) throw error
      }
      const now = await look(link)
      return now && { question: now, taken }
    },
  }
}
