import { decodeConfigSchema } from '@busbar/decode';
import { frontendConfigSchema } from '@busbar/frontend';
import { prefillConfigSchema } from '@busbar/prefill';
import { routerConfigSchema } from '@busbar/router';
import { baseConfigSchema, variableName } from '@busbar/service';
import { z } from 'zod';
import { code, markdownTable, type Page, page } from './page.ts';

/** The configuration of each service, by role. */
export const CONFIG_SCHEMAS: Readonly<Record<string, z.ZodObject>> = {
  frontend: frontendConfigSchema,
  router: routerConfigSchema,
  decode: decodeConfigSchema,
  prefill: prefillConfigSchema,
};

/** Every environment variable of every service. */
export function configurationPage(): Page {
  const shared = Object.keys(baseConfigSchema.shape);
  const parts = [
    '## All services',
    variables(baseConfigSchema, shared),
    ...Object.entries(CONFIG_SCHEMAS).flatMap(([role, schema]) => [
      `## ${role}`,
      variables(
        schema,
        Object.keys(schema.shape).filter((name) => !shared.includes(name)),
      ),
    ]),
  ];
  return page(
    'configuration.md',
    'Configuration',
    'Services are configured by environment variables. A variable that begins with `BUSBAR_` and is not known ends the process with exit code 2 and the nearest known name. `OTEL_EXPORTER_OTLP_ENDPOINT` turns tracing on.',
    parts,
  );
}

function variables(schema: z.ZodObject, names: readonly string[]): string {
  const json = z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' });
  const rows = names.map((name) => {
    const field: unknown = json.properties?.[name];
    return [code(variableName(name)), defaultOf(field), describe(schema, name)];
  });
  return markdownTable(['variable', 'default', 'what it sets'], rows);
}

function describe(schema: z.ZodObject, name: string): string {
  const description = schema.shape[name]?.description;
  if (description === undefined) throw new Error(`field ${name} has no description`);
  return description;
}

function defaultOf(field: unknown): string {
  if (typeof field !== 'object' || field === null || !('default' in field)) return '';
  return code(String(field.default));
}
