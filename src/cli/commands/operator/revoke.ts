/** `revoke`: ends an endpoint's access, by its id or by the name it has alone. */
import type { Command } from 'commander'
import { CliError, EXIT } from '../../exit.ts'
import { print, printJson } from '../../output.ts'
import { clientCommand, openSession, type SharedOptions } from '../../program.ts'

interface Endpoint {
  id: string
  name: string
  revokedAt: string | null
}

interface Options extends SharedOptions {
  cancelTasks?: boolean
}

export const addRevoke = (program: Command): void => {
  clientCommand(program, 'revoke <endpoint>', 'revoke an endpoint, by id or name')
    .option('--cancel-tasks', 'also cancel the tasks it has sent')
    .action(async (given: string, options: Options) => {
      const { client, json } = openSession(options)
      const { endpoints } = await client.call<{ endpoints: Endpoint[] }>('endpoints.list')
      const revoked = await client.call<{ endpoint: Endpoint }>('endpoints.revoke', {
        id: idOf(endpoints, given),
        ...(options.cancelTasks === true ? { cancelTasks: true } : {}),
      })
      if (json) return printJson(revoked)
      print(`${revoked.endpoint.name} (${revoked.endpoint.id}) is revoked`)
    })
}

const idOf = (endpoints: Endpoint[], given: string): string => {
  const byId = endpoints.find(({ id }) => id === given)
  if (byId !== undefined) return byId.id
  const [found, second] = endpoints.filter((one) => one.name === given && one.revokedAt === null)
  if (found === undefined) throw new CliError(EXIT.notFound, `No endpoint ${given}`)
  if (second !== undefined) {
    throw new CliError(EXIT.usage, `More than one endpoint is named ${given}: give an id`)
  }
  return found.id
}
