/** A page of what a todo holds, for whoever was shown only as much of it as fits into an answer. */
import type { Scope } from '../domain/endpoint.ts'
import { orNotFound } from '../domain/errors.ts'
import type { StoredDocument, Todo } from '../domain/todo.ts'
import type { Database } from '../store/postgres/database.ts'
import { readDocuments } from '../store/todos/documents.ts'
import { readBrief } from '../store/todos/view.ts'

export interface DocumentPage {
  todo: Todo
  documents: StoredDocument[]
  /** After which seq the next page begins; null where this is the last. */
  next: number | null
}

export const documentPage = async (
  database: Database,
  id: string,
  after: number,
  scope: Scope,
): Promise<DocumentPage> => {
  const { todo } = orNotFound(await readBrief(database, id, scope))
  return { todo, ...(await readDocuments(database, id, after)) }
}
