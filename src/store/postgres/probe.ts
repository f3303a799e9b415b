/**
 * The first connection to a database that somebody has configured. What fails here is most often a slip
 * in its address, so the error names the part of the address that is at fault. It names no value: after a
 * slip, a piece of the password may stand where the host or the database should.
 */
import net from 'node:net'
import pg from 'pg'

export class DatabaseUnreachable extends Error {
  /** The server answered, and said no to what the address says. */
  readonly refused: boolean

  constructor(fault: string, refused: boolean, cause: unknown) {
    super(fault, { cause })
    this.name = 'DatabaseUnreachable'
    this.refused = refused
  }
}

/** How long, in ms, a server may accept the connection and say nothing before it counts as away. */
const ANSWER_MS = 10_000

const BY_SQLSTATE: Record<string, string> = {
  '28P01': 'its user or password is wrong',
  '28000': 'its user may not log in, or not from here, or not in this way',
  '3D000': 'its database does not exist',
  '42501': 'its user may not connect to its database',
}

const BY_ERRNO: Record<string, string> = {
  ENOTFOUND: 'its host is unknown',
  EAI_AGAIN: 'its host cannot be looked up at the moment',
  ECONNREFUSED: 'nothing listens on its host and port',
  ENOENT: 'its host is a folder without a socket of PostgreSQL for its port',
  EACCES: 'its host is a socket that this user may not open',
}

const faultOf = (error: unknown): { fault: string; refused: boolean } => {
  const { code = '', message = '' } = error as { code?: string; message?: string }
  if (error instanceof pg.DatabaseError) {
    const fault = BY_SQLSTATE[code]
    return fault
      ? { fault: `${fault} (SQLSTATE ${code})`, refused: true }
      : { fault: `its server takes no connection now (SQLSTATE ${code})`, refused: false }
  }
  // The driver has no codes for the next two.
  if (/^SASL: .*password/.test(message)) {
    return { fault: 'it has no password, and its server asks for one', refused: true }
  }
  if (/SSL/.test(message) || /CERT|SSL|TLS/.test(code)) {
    const fault = 'its host and its query string (sslmode, …) do not agree on TLS'
    return { fault: code === '' ? fault : `${fault} (${code})`, refused: true }
  }
  const fault = BY_ERRNO[code] ?? 'its host and port do not answer as PostgreSQL does'
  return { fault: code === '' ? fault : `${fault} (${code})`, refused: false }
}

interface Answered {
  pid: number
  encoding: string
  datestyle: string
  intervalstyle: string
  bytea_output: string
}

/** How times, intervals and bytes must be written. A connection of our own sets it; one that is lent cannot. */
const FORMS = { datestyle: 'ISO', intervalstyle: 'postgres', bytea_output: 'hex' } as const

/** What of a pooled connection's forms we could not read, with what to do. */
const formFault = (answered: Answered): string | null => {
  for (const [name, form] of Object.entries(FORMS)) {
    const is = answered[name as keyof typeof FORMS]
    if (is.split(',')[0] === form) continue
    return (
      `its ${name} is ${is}, and behind a pooler nobody can set it for a connection: ` +
      `alter database … set ${name} = '${form}', or the same for its role, and reconnect the pooler`
    )
  }
  return null
}

/**
 * Connects, sees who answers, and leaves again. `pooled` means that a pooler answers in the server's
 * place: it reports another process id than that of the backend that works for us. A database that
 * cannot hold every text, or whose times could not be read, is refused. Throws DatabaseUnreachable.
 */
export const probe = async (connectionString: string): Promise<{ pooled: boolean }> => {
  const socket = new net.Socket()
  const client = new pg.Client({
    connectionString,
    stream: () => socket,
    application_name: 'switchboard reach',
    connectionTimeoutMillis: ANSWER_MS,
  })
  client.on('error', () => {})
  try {
    await client.connect()
  } catch (error) {
    // The driver leaves the socket open, and the process would not end before the server closes it.
    socket.destroy()
    const { fault, refused } = faultOf(error)
    throw new DatabaseUnreachable(fault, refused, error)
  }
  const { rows } = await client.query<Answered>(
    `select pg_backend_pid() as pid, current_setting('server_encoding') as encoding,
      ${Object.keys(FORMS)
        .map((name) => `current_setting('${name}') as ${name}`)
        .join(', ')}`,
  )
  const reported = (client as unknown as { processID: number | null }).processID
  await client.end()
  const answered = rows[0]!
  const { pid, encoding } = answered
  if (encoding !== 'UTF8') {
    // What a client sends could be stored for as long as it stays within the encoding, and no longer.
    const fault =
      `its database has the encoding ${encoding}, and texts need UTF8: make another one by ` +
      `create database … encoding 'UTF8' template template0`
    throw new DatabaseUnreachable(fault, true, undefined)
  }
  const pooled = pid !== reported
  const fault = pooled ? formFault(answered) : null
  if (fault !== null) throw new DatabaseUnreachable(fault, true, undefined)
  return { pooled }
}
