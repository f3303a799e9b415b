/** Objects, and what several bindings have in common. */
import { type Must, must } from '../must.ts'

const CONTRACT = 'contract/contract.test.ts'
const OFFICIAL = 'protocol/v1/official.test.ts'

const IS_OFFICIAL = '%s is the official %s, no member more'
const SAME_FACTS = 'one task is the same facts in every dialect, whoever made it'
const OVER_BOTH = 'one task shows the same facts over both bindings'
const STAMPS = 'timestamps come from the database, never step back and agree over all nodes'

export const DATA: Must[] = [
  must('63', '4, 5.5', 'Objects are those of the proto, in camelCase, enums by name', {
    [OFFICIAL]: [IS_OFFICIAL, 'enums have the official values, in order'],
    'a2a/send.test.ts': [
      'an answer of 1.0 has a task in a wrapper when sent, bare when read, and no word of another version',
    ],
  }),
  must('64a', '5.6.1', 'Timestamps are ISO 8601 in UTC', { 'a2a/send.test.ts': [STAMPS] }),
  must('64b', '5.6.1', 'Their offset is Z', {
    'a2a/send.test.ts': [STAMPS],
    [OFFICIAL]: [IS_OFFICIAL],
  }),
  must('64c', '5.6.1', 'Timestamps of others are read right', {
    'protocol/v1/schema.test.ts': ['reads %s to the millisecond', 'refuses %j as a moment'],
    'a2a/lists.test.ts': [
      'the bound of a status timestamp takes in what is shown with that timestamp',
    ],
  }),
  must('65a', '5.7', 'What is required is there', { [OFFICIAL]: [IS_OFFICIAL] }),
  must('65b', '5.7', 'A required list has an element', {
    [CONTRACT]: ['a message that is not whole is refused and nothing of it stored'],
    'protocol/agent/schema.test.ts': ['an artifact needs an id and a part'],
    'protocol/card.test.ts': ['whatever was stored, a card is whole and nothing in it is empty'],
  }),
  must(
    '66',
    'P',
    'A part has one content; an artifact has a part, and an id of its own in its task',
    {
      [OFFICIAL]: ['a part takes exactly one member of the oneof'],
      'protocol/agent/schema.test.ts': ['an artifact needs an id and a part'],
      'musts/tasks.test.ts': [
        'of two artifacts under one id the later one takes the place of the other',
      ],
    },
  ),
  must('67', 'P', 'Messages of the server have a contextId, and a taskId where there is a task', {
    'musts/tasks.test.ts': ['whatever the agent says is told with its context, and its task'],
    'a2a/send.test.ts': [
      'three turns leave five messages in order, each once, with the ids of the task; the last word is the status; also after a restart',
    ],
  }),
  must('68a', '5.1', 'Each binding has the same operations', {
    'protocol/v1/paths.test.ts': ['every method of the table has a path, and every path a method'],
  }),
  must('68b', '5.1', 'With the same results', {
    [CONTRACT]: [SAME_FACTS],
    'a2a/rest/rest.test.ts': [OVER_BOTH],
  }),
  must('68c', '5.1', 'With the same errors', {
    [CONTRACT]: [
      'what is not there, or not yours, is one error',
      'a message that is not whole is refused and nothing of it stored',
    ],
  }),
  must('68d', '5.1', 'With the same ways to authenticate', {
    [CONTRACT]: ['nobody gets in without a token'],
    'a2a/rest/rest-errors.test.ts': ['%s %s is refused without a token, and in another version'],
  }),
  must('69', '5.2', 'All that is served is declared in the card', {
    'a2a/card-clients.test.ts': ['what a card declares is served: %j'],
    'protocol/card.test.ts': ['says what the operator wrote and what only the server knows'],
    [CONTRACT]: ['a version of another name is refused before anything happens, on both bindings'],
  }),
]
