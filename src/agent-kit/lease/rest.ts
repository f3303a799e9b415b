/**
 * The rest of a todo whose documents did not fit into its claim: all of it is read, page by page, so that
 * its handler sees what it would have seen of a small one.
 */
import { assemble } from '../../base/chunks.ts'
import type { Child, ClaimedTodo, ListedDocument, OwedMessage } from '../wire.ts'
import type { Hold } from './holding.ts'

interface DocumentsPage {
  documents: ListedDocument[]
  next: number | null
}

/** A page is large, and beats go on beside it. */
const PAGE_TIMEOUT_MS = 60_000

const read = async (hold: Hold): Promise<ListedDocument[]> => {
  const all: ListedDocument[] = []
  for (let after: number | null = 0; after !== null; ) {
    const params = { after }
    const page: DocumentsPage = await hold.verb('todos.documents', params, {
      repeatable: true,
      timeoutMs: PAGE_TIMEOUT_MS,
    })
    all.push(...page.documents)
    after = page.next
  }
  return all
}

const owedIn = (documents: readonly ListedDocument[]): OwedMessage[] =>
  documents.flatMap(({ seq, message, receivedAt = '', answers, unread }) =>
    message && unread
      ? [{ seq, message, receivedAt, ...(answers !== undefined && { answers }) }]
      : [],
  )

const readDocuments = async (todo: ClaimedTodo, hold: Hold): Promise<void> => {
  const documents = await read(hold)
  todo.history = documents.flatMap(({ message }) => message ?? [])
  todo.message = todo.history[0] ?? todo.message
  todo.unread = owedIn(documents)
  todo.artifacts = assemble(documents.flatMap(({ artifact }) => artifact ?? []))
  delete todo.omitted
}

const isLeftOut = ({ resultBytes }: Child): boolean => resultBytes !== undefined

/** Something of it did not fit. */
export const isPartial = ({ omitted, children }: ClaimedTodo): boolean =>
  omitted !== undefined || children?.some(isLeftOut)

/** Completes the todo in place. */
export const readRest = async (todo: ClaimedTodo, hold: Hold): Promise<void> => {
  if (todo.omitted) await readDocuments(todo, hold)
  for (const [index, child] of todo.children.entries()) {
    if (!isLeftOut(child)) continue
    const params = { child: child.id }
    todo.children[index] = await hold.verb('todos.child', params, {
      repeatable: true,
      timeoutMs: PAGE_TIMEOUT_MS,
    })
  }
}
