/** `sessions`: who is logged in to the board, and ending that. */
import type { Command } from 'commander'
import { localMoment, print, printTable } from '../../output.ts'
import { clientCommand, showing } from '../../program.ts'

interface BoardSession {
  id: string
  endpoint: { id: string; name: string } | null
  live: boolean
  createdAt: string
  expiresAt: string
}

export const addSessions = (program: Command): void => {
  const sessions = program.command('sessions').description('list and end sessions of the board')

  clientCommand(sessions, 'list', 'print who is logged in').action(
    showing(
      (client) => client.call<{ sessions: BoardSession[] }>('sessions.list'),
      (found) => printTable(['ID', 'WHO', 'SINCE', 'UNTIL'], found.sessions.map(row)),
    ),
  )

  clientCommand(sessions, 'revoke <id>', 'end a session; "all" ends every one').action(
    showing(
      (client, id: string) =>
        client.call<{ revoked: number }>('sessions.revoke', id === 'all' ? { all: true } : { id }),
      ({ revoked }) => print(`${revoked} ended`),
    ),
  )
}

const row = ({ id, endpoint, live, createdAt, expiresAt }: BoardSession): string[] => [
  id,
  live ? (endpoint?.name ?? 'operator') : 'nobody any more',
  localMoment(createdAt),
  localMoment(expiresAt),
]
