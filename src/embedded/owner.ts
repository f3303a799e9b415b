/**
 * Whose a data directory is. Its owner may change all that is in it: tokens, the database, and by a link
 * what is written elsewhere. So nobody works on another's.
 */
import fs from 'node:fs'

/** The other user whose this directory is; null where it is ours or root's, or there is none. */
export const foreignOwner = (dir: string): number | null => {
  const me = process.getuid?.()
  const owner = fs.statSync(dir, { throwIfNoEntry: false })?.uid
  return me === undefined || owner === undefined || owner === me || owner === 0 ? null : owner
}

/** What is said of one, with what to do. */
export const ownedByAnother = (dir: string, owner: number): string =>
  `The data directory ${dir} belongs to uid ${owner}, and this process is uid ${process.getuid?.()}. ` +
  'Start it as that user, or choose a SWITCHBOARD_DATA_DIR of your own'
