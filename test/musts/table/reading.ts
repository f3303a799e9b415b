/** Reading, listing and canceling tasks. */
import { type Must, must } from '../must.ts'

const CONTRACT = 'contract/contract.test.ts'
const LISTS = 'a2a/lists.test.ts'
const TENANCY = 'a2a/tenancy.test.ts'

const ANOTHERS =
  "another tenant's task and one that never was are one answer, byte for byte, in every method and in every state"
const EMPTY_LIST = 'the list of a caller without tasks is empty, with all its members'
const REST_LIST = 'a list has its four members always, and artifacts where they were asked for'
const HISTORY =
  'the same history is shown by each method that takes its length, and reading never shortens it'

export const READING: Must[] = [
  must('32', '3.1.3', 'GetTask of an unknown or hidden task is TaskNotFoundError', {
    [CONTRACT]: ['what is not there, or not yours, is one error'],
    [TENANCY]: [ANOTHERS],
  }),
  must('33', '3.1.4, 13.1', 'ListTasks shows what the caller may see, and no more', {
    [TENANCY]: [ANOTHERS, 'a page token of another caller opens nothing of theirs'],
  }),
  must('34', '3.1.4', 'Pages are found by a cursor', {
    'musts/tasks.test.ts': [
      'a walk through the pages meets no task twice, and misses none, while others come and move',
    ],
    [LISTS]: ['pages hold every task once, newest status first, and say how many there are'],
  }),
  must('35', '3.1.4', 'The newest status comes first', {
    [LISTS]: ['pages hold every task once, newest status first, and say how many there are'],
  }),
  must('36', '3.1.4', 'Without includeArtifacts there is no member artifacts', {
    [LISTS]: ['artifacts are listed when they are asked for, and else there is no such member'],
    'a2a/rest/rest.test.ts': [REST_LIST],
  }),
  must('37', '3.1.4', 'nextPageToken is always there, empty on the last page', {
    [LISTS]: [EMPTY_LIST, 'a page of large tasks ends early, and its token leads to the rest'],
    'a2a/rest/rest.test.ts': [REST_LIST],
  }),
  must('38', '5.7, P', 'tasks, pageSize and totalSize are always there', {
    [LISTS]: [EMPTY_LIST],
    'a2a/rest/rest.test.ts': [REST_LIST],
  }),
  must('39', 'P', 'A page has 1 to 100 tasks, and 50 where no size was asked for', {
    'musts/tasks.test.ts': ['who says no size gets fifty at most, over both bindings'],
    'a2a/validation.test.ts': ['a list with the %s %j is refused with the field at fault'],
  }),
  must('40', 'P', 'statusTimestampAfter takes in its own moment', {
    [LISTS]: ['the bound of a status timestamp takes in what is shown with that timestamp'],
  }),
  must('41a', 'P', 'Never more messages than historyLength', {
    [LISTS]: [HISTORY],
    [CONTRACT]: ['as much of the history as was asked for, the newest'],
  }),
  must('41b', '3.2.4', 'A historyLength of 0 gives none', {
    [LISTS]: [HISTORY],
    'a2a/rest/rest.test.ts': ['the history is as long as the query asks'],
  }),
  must('42', '3.1.5', 'An ended task is TaskNotCancelableError, an unknown one TaskNotFoundError', {
    'a2a/cancel.test.ts': ['a task that completed, failed or was rejected cannot be canceled'],
    [CONTRACT]: [
      'a finished task takes no message, and its cancel tells so',
      'what is not there, or not yours, is one error',
    ],
  }),
  must('43a', '3.1.5', 'A cancel returns the task as it is after', {
    [CONTRACT]: ['cancel is idempotent'],
  }),
  must('43b', '3.3.1', 'A repeated cancel has the same effect', {
    [CONTRACT]: ['cancel is idempotent'],
    'a2a/cancel.test.ts': [
      'a cancel is the same again and again, and one event in all',
      'twenty cancels at the same moment are one',
    ],
  }),
]
