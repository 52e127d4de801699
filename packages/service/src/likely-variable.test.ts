import assert from 'node:assert/strict';
import { test } from 'node:test';
import { likelyVariable } from './likely-variable.ts';

const known = [
  'BUSBAR_ID',
  'BUSBAR_ADMIN_PORT',
  'BUSBAR_HTTP_PORT',
  'BUSBAR_KV_CONNECTOR_PORT',
  'BUSBAR_TRANSFER_PORT',
  'BUSBAR_LOG_LEVEL',
  'BUSBAR_TOKENIZER_THREADS',
];

test('a misspelt variable is told the one that is spelt nearly so', () => {
  for (const [name, meant] of [
    ['BUSBAR_HTTP_PROT', 'BUSBAR_HTTP_PORT'],
    ['BUSBAR_LOG_LEVLE', 'BUSBAR_LOG_LEVEL'],
    ['BUSBAR_IDD', 'BUSBAR_ID'],
  ] as const) {
    assert.equal(likelyVariable(name, known), meant);
  }
});

test('a part of a name is told the names that hold it, the shortest first', () => {
  assert.equal(
    likelyVariable('BUSBAR_PORT', known),
    'BUSBAR_HTTP_PORT, BUSBAR_ADMIN_PORT or BUSBAR_TRANSFER_PORT',
  );
  assert.equal(likelyVariable('BUSBAR_TOKENIZER', known), 'BUSBAR_TOKENIZER_THREADS');
  assert.equal(likelyVariable('BUSBAR_HTTP_PORT', ['BUSBAR_ID']), undefined);
});

test('what is near nothing gets no hint, however short the names are', () => {
  for (const name of ['BUSBAR_FOO', 'BUSBAR_', 'BUSBAR_XY', 'BUSBAR_ORT', 'BUSBAR_ZZZZZZZZZZZZ']) {
    assert.equal(likelyVariable(name, known), undefined, name);
  }
});
