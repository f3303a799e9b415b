/** `revoke`: ends an endpoint's access, by its id or by the name it has alone. */
import type { Command } from 'commander'
import { defined } from '../../../base/defined.ts'
import { CliError, EXIT } from '../../exit.ts'
import { print } from '../../output.ts'
import { clientCommand, showing } from '../../program.ts'

interface Endpoint {
  id: string
  name: string
  revokedAt: string | null
}

export const addRevoke = (program: Command): void => {
  clientCommand(program, 'revoke <endpoint>', 'revoke an endpoint, by id or name')
    .option('--cancel-tasks', 'also cancel the tasks it has sent')
    .action(
      showing(
        async (client, given: string, { cancelTasks }: { cancelTasks?: true }) => {
          const { endpoints } = await client.call<{ endpoints: Endpoint[] }>('endpoints.list')
          const params = defined({ id: idOf(endpoints, given), cancelTasks })
          return client.call<{ endpoint: Endpoint }>('endpoints.revoke', params)
        },
        ({ endpoint }) => print(`${endpoint.name} (${endpoint.id}) is revoked`),
      ),
    )
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
