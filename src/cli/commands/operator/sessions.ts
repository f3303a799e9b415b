/** `sessions`: who is logged in to the board, and ending that. */
import type { Command } from 'commander'
import { localMoment, print, printJson, printTable } from '../../output.ts'
import { clientCommand, openSession, type SharedOptions } from '../../program.ts'

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
    async (options: SharedOptions) => {
      const { client, json } = openSession(options)
      const found = await client.call<{ sessions: BoardSession[] }>('sessions.list')
      if (json) return printJson(found)
      printTable(['ID', 'WHO', 'SINCE', 'UNTIL'], found.sessions.map(row))
    },
  )

  clientCommand(sessions, 'revoke <id>', 'end a session; "all" ends every one').action(
    async (id: string, options: SharedOptions) => {
      const { client, json } = openSession(options)
      const which = id === 'all' ? { all: true } : { id }
      const ended = await client.call<{ revoked: number }>('sessions.revoke', which)
      if (json) printJson(ended)
      else print(`${ended.revoked} ended`)
    },
  )
}

const row = ({ id, endpoint, live, createdAt, expiresAt }: BoardSession): string[] => [
  id,
  live ? (endpoint?.name ?? 'operator') : 'nobody any more',
  localMoment(createdAt),
  localMoment(expiresAt),
]
