import type { Rng } from '@busbar/base';

const VOCABULARY =
  `time year day way world life hand part place case week company system program question work number night point home
water room area money story fact month lot right study book eye job word business issue side kind head house service
friend power hour game line end member law car city community name team minute idea body information back face level
office door health person art war history result change morning reason research air force education river stone light`
    .trim()
    .split(/\s+/);

/** `count` common English words, each followed by a space. */
export function words(rng: Rng, count: number): string {
  let text = '';
  for (let i = 0; i < count; i++) text += `${VOCABULARY[rng.int(VOCABULARY.length)]} `;
  return text;
}
