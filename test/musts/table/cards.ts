/** Agent cards. */
import { type Must, must, untested } from '../must.ts'

const CARDS = 'a2a/cards.test.ts'
const SIGNED = 'protocol/card-signature.test.ts'

const BY_THE_SPEC =
  'what the specification wants to be signed is what is signed: defaults out, what was set in'

export const CARD: Must[] = [
  must('89', '8.1, 14.3', 'There is a card, at the well-known address', {
    [CARDS]: ['the card at %s can be cached, revalidated and read from any origin'],
    'a2a/card-clients.test.ts': [
      'the 1.x client reads the hybrid card as it reads its own, chooses 1.0 and talks',
    ],
  }),
  must('90', '8.3, 8.3.1', 'Each interface has its true binding and URL', {
    'a2a/card-clients.test.ts': ['what a card declares is served: %j'],
    [CARDS]: ['a card names the public address, whatever the request says of its host'],
  }),
  must('91', '5.7, P', 'A card has what is required', {
    'protocol/v1/official.test.ts': ['%s is the official %s, no member more'],
    'protocol/card.test.ts': ['whatever was stored, a card is whole and nothing in it is empty'],
  }),
  must('92a', '8.4.1', 'What is signed is in canonical form (RFC 8785)', {
    'base/canonical.test.ts': [
      'numbers, strings and literals are written as RFC 8785 has them',
      'names are ordered by their UTF-16 code units, whatever engine or insertion say',
    ],
    [SIGNED]: ['the SDK makes the same payload of any card, so the two cannot disagree'],
  }),
  must('92b', '8.4.1', 'Defaults are out of it, required members and what was set are in', {
    [SIGNED]: [BY_THE_SPEC],
  }),
  must('92c', '8.4.1', 'signatures is not part of it', {
    [SIGNED]: [
      BY_THE_SPEC,
      'what is published is the public halves, and they check the signatures',
    ],
  }),
  must('93a', '8.4.2', 'The protected header has alg and kid', {
    [SIGNED]: ['every key signs, and every signature says how and where to check it'],
  }),
  untested(
    '93b',
    '8.4.3',
    'Expired and revoked keys check nothing',
    'For who verifies. The server verifies no card; a key taken out of its configuration is not published any more.',
  ),
]
