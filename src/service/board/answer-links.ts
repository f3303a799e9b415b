/**
 * Links with which somebody without an account answers one question, once. The secret in the
 * address is random, and only its hash is kept. The answer carries the link's id as its message id and
 * names its question, so it is accepted at most once, however often and on whichever node somebody
 * submits it. Whether
 * it was accepted is read from the conversation and nowhere else.
 */
import { type Caller, EVERYTHING, watchScope } from '../../domain/endpoint.ts'
import { isRefusal, orNotFound, Refusal } from '../../domain/errors.ts'
import type { State } from '../../domain/lifecycle.ts'
import type { JsonObject, Message, Part, TodoView } from '../../domain/todo.ts'
import {
  type AnswerLinkRow,
  addAnswerLink,
  readAnswerLink,
} from '../../store/admin/answer-links.ts'
import { type AnswerRow, readAnswer } from '../../store/todos/questions.ts'
import { readAnswerSchema, readEnds } from '../../store/todos/view.ts'
import type { Parts } from '../parts.ts'
import { asks } from '../tasks/questions.ts'
import type { Reply } from '../tasks/reply.ts'
import { ANSWERED_BY } from '../tasks/text.ts'
import { hashOf, isSecret, newSecret } from './secret.ts'

/** A question as somebody with a link to it sees it. */
export interface LinkedQuestion {
  /** `changed`: the todo no longer asks this, and nobody has answered. */
  status: 'open' | 'answered' | 'expired' | 'changed'
  /** The name of the agent that asks, and the message with its task. */
  agent: string
  task: Message | null
  asked: Message
  state: State
  schema: JsonObject | null
  /** Until when this link can be used. */
  until: Date
  /** Who answered, as far as we know, when, and whether with this link. */
  answered: { by: string | null; at: Date; here: boolean } | null
}

export interface AnswerLinks {
  /** Refuses: not_found, wrong_state (the todo asks nothing). */
  create(
    id: string,
    seconds: number | undefined,
    caller: Caller,
  ): Promise<{ url: string; question: number; expiresAt: Date }>
  /** Null if the secret is not one of ours, or the todo is gone. */
  open(secret: string): Promise<LinkedQuestion | null>
  /** The question as it is afterwards, whoever has answered it. Refuses: invalid (the schema). */
  answer(
    secret: string,
    answer: { parts: Part[]; by: string | null },
  ): Promise<{ question: LinkedQuestion; taken: boolean } | null>
}

const DEFAULT_SECONDS = 86_400

interface AnswerLinksParts extends Pick<Parts, 'database' | 'registry'> {
  reply: Reply
  publicUrl: () => string
}

const PREFIX = 'answer-link-'
const messageIdOf = ({ id }: AnswerLinkRow): string => `${PREFIX}${id}`

const answeredOf = (link: AnswerLinkRow, answer: AnswerRow): LinkedQuestion['answered'] => {
  const here = answer.messageId === messageIdOf(link)
  // Only an answer by a link, this one or another, may say who gave it.
  const linked = answer.sender === null && answer.messageId.startsWith(PREFIX)
  const by = linked ? answer.metadata?.[ANSWERED_BY] : answer.sender
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

  const read = async (link: AnswerLinkRow): Promise<LinkedQuestion | null> => {
    const { todoId: id, question } = link
    const view = await readEnds(database, id, EVERYTHING, question)
    const asked = view?.messages.find(({ seq }) => seq === question)
    if (!view || !asked) return null
    const [answer, fit, queue] = await Promise.all([
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
      schema: fit?.schema ?? null,
      until: link.expiresAt,
      answered: answer && answeredOf(link, answer),
    }
  }

  return {
    create: async (id, seconds = DEFAULT_SECONDS, caller) => {
      const scope = watchScope(caller, 'answer')
      const { todo } = orNotFound(await readEnds(database, id, scope))
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
      return link && read(link)
    },

    answer: async (secret, { parts, by }) => {
      const link = await find(secret)
      const question = link && (await read(link))
      if (!link || !question) return null
      if (question.status !== 'open') return { question, taken: false }
      const message = {
        messageId: messageIdOf(link),
        role: 'ROLE_USER' as const,
        parts,
        ...(by !== null && { metadata: { [ANSWERED_BY]: by } }),
      }
      let taken = false
      try {
        const { receipt } = await reply({
          id: link.todoId,
          message,
          scope: EVERYTHING,
          senderId: null,
          question: link.question,
        })
        taken = receipt.outcome !== 'repeated'
      } catch (error) {
        // It was answered, taken back or ended in this very moment: the question says which.
        if (!isRefusal(error, 'wrong_state', 'finished', 'not_found')) throw error
      }
      const now = await read(link)
      return now && { question: now, taken }
    },
  }
}
