#!/usr/bin/env node
// SPDX-License-Identifier: MIT
/* Hands tasks to the retry queue of tallybox over HTTP, and receives its calls. Standard library
 * only, Node.js 18 or newer; copy the file into your project. README.md explains the rules that the
 * four files of this folder share.
 *
 *     tallybox_tasks.mjs receive PORT [FAILURES]   a webhook that fails FAILURES times for each task
 *     tallybox_tasks.mjs report COUNT WEBHOOK      work that fails here and is handed over
 *
 * TALLYBOX_URL (http://127.0.0.1:8080) and TALLYBOX_TOKEN name the server and the token. With
 * TALLYBOX_GROUP the webhook registers itself as a client of this group. */

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const BATCH = 100; // tasks of one request; the server takes 1,000
const CALL_MS = 10000;
const WAIT_MS = 200; // after the first failed request; doubled by each further one
const WAIT_MS_MAX = 30000;
const REFUSES = [400, 409, 413, 422]; // statuses that mean the tasks; others mean the server or the token
const LATER = ['too_many_requests', 'unavailable', 'timeout'];

/** The work, or the task, fails always: do not try it again. */
export class Refused extends Error {}

/** The server did not take the request now, or its answer was lost. Send the same again. */
export class Unavailable extends Error {
  constructor(reason, waitMs = 0) {
    super(reason);
    this.waitMs = waitMs;
  }
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const spread = (ms) => ms * (0.5 + Math.random());

export class Client {
  constructor(url, token) {
    this.url = url.replace(/\/+$/, '');
    this.token = token;
  }

  /** Hands over an array of 1 to 1,000 tasks, committed when the promise resolves: one answer for
   * each, {id, existed} or {error: {code, message}}. A task needs an idempotencyKey, by which it is
   * the same task when it is sent again. */
  async submit(tasks) {
    const answers = await this.#post('/v1/tasks', tasks);
    if (answers.length !== tasks.length) throw new Unavailable('not one answer for each task');
    return answers;
  }

  /** Registers this process as a client that takes the tasks of a group at an address, for 90
   * seconds: {configVersion, beatMs}. */
  beat(beat) {
    return this.#post('/v1/clients/beat', beat);
  }

  async #post(path, body) {
    let response;
    let text;
    try {
      response = await fetch(`${this.url}${path}`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${this.token}` },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(CALL_MS),
      });
      text = await response.text();
    } catch (error) {
      throw new Unavailable(`${error.message}: ${error.cause?.message ?? ''}`);
    }
    if (response.status !== 200) {
      const reason = `status ${response.status}: ${text.slice(0, 1000)}`;
      if (REFUSES.includes(response.status)) throw new Refused(reason);
      throw new Unavailable(reason, 1000 * (Number(response.headers.get('Retry-After')) || 0));
    }
    try {
      return JSON.parse(text);
    } catch (error) {
      throw new Unavailable(error.message);
    }
  }
}

/** Beats every 30 seconds; the timer does not keep the process alive. countFailed() is the number of
 * failed reports so far, as Reporter.failedCalls; each is told once. */
export async function keepBeating(client, beat, countFailed = () => 0) {
  for (let told = 0, waitMs = 30000; ;) {
    const failed = countFailed();
    try {
      waitMs = (await client.beat({ ...beat, failedReports: failed - told })).beatMs;
      told = failed;
    } catch (error) {
      console.error(`no beat: ${error.message}`);
    }
    await new Promise((done) => setTimeout(done, waitMs).unref());
  }
}

/** Tries work here, and hands over what keeps failing. Tasks wait in a window in memory and are
 * sent BATCH at a time, or when the first has waited for flushMs. A crash of the process loses the
 * window; close() sends it. onRefused(task, reason) learns of tasks that can never be taken. */
export class Reporter {
  constructor(client, { window = 1000, flushMs = 1000, onRefused } = {}) {
    this.client = client;
    this.window = window;
    this.flushMs = flushMs;
    this.onRefused = onRefused ?? ((task, reason) => console.error(`refused: ${task.idempotencyKey}: ${reason}`));
    this.waiting = [];
    this.closingAt = 0;
    this.reported = 0;
    this.refused = 0;
    this.failedCalls = 0;
    this.lastError = '';
    this.listeners = new Set();
    this.ended = this.#sendAll();
  }

  /** Resolves to "done" if work() succeeded, else to "queued locally": the task is in the window. A
   * full window makes the caller wait. Refused, thrown by work(), reaches the caller. */
  async attempt(work, task, { attempts = 3, waitMs = 100 } = {}) {
    for (let attempt = 0; attempt < attempts; attempt++) {
      try {
        await work();
        return 'done';
      } catch (error) {
        if (error instanceof Refused) throw error;
        if (attempt + 1 < attempts) await sleep(spread(waitMs * 2 ** attempt));
      }
    }
    while (!this.closingAt && this.waiting.length >= this.window) await this.#change();
    if (this.closingAt) throw new Unavailable('the reporter is closed');
    this.waiting.push({ idempotencyKey: randomUUID(), ...task });
    this.#changed();
    return 'queued locally';
  }

  /** Sends the window; resolves to the tasks that could not be sent in time. */
  async close(limitMs = 30000) {
    this.closingAt ||= Date.now() + limitMs;
    this.#changed();
    await this.ended;
    return this.waiting;
  }

  /** Resolves at the next change of the window, or after ms. */
  #change(ms) {
    return new Promise((done) => {
      let timer;
      const listener = () => {
        clearTimeout(timer);
        this.listeners.delete(listener);
        done();
      };
      if (ms !== undefined) timer = setTimeout(listener, ms);
      this.listeners.add(listener);
    });
  }

  #changed() {
    for (const listener of [...this.listeners]) listener();
  }

  async #sendAll() {
    let size = BATCH;
    let wait = WAIT_MS;
    for (;;) {
      const batch = await this.#nextBatch(size);
      if (batch.length === 0) return;
      let kept = [];
      let error;
      try {
        [kept, error] = this.#readAnswers(batch, await this.client.submit(batch));
        size = Math.min(size * 2, BATCH);
      } catch (thrown) {
        if (thrown instanceof Refused && batch.length > 1) {
          size = batch.length >> 1; // too large together, or one of them is in the others' way
          continue;
        }
        if (thrown instanceof Refused) this.#refuse(batch[0], thrown.message);
        else [kept, error] = [batch, thrown];
      }
      this.waiting.splice(0, batch.length, ...kept);
      this.#changed();
      if (error) await this.#pause(error, wait);
      wait = error ? Math.min(wait * 2, WAIT_MS_MAX) : WAIT_MS;
    }
  }

  async #nextBatch(size) {
    while (this.waiting.length === 0 && !this.closingAt) await this.#change();
    for (const flushAt = Date.now() + this.flushMs; ;) {
      const left = flushAt - Date.now();
      if (this.waiting.length >= size || this.closingAt || left <= 0) break;
      await this.#change(left);
    }
    return this.closingAt && Date.now() > this.closingAt ? [] : this.waiting.slice(0, size);
  }

  /** Returns the tasks to send again, and why. */
  #readAnswers(batch, answers) {
    const kept = [];
    let why;
    answers.forEach(({ error }, i) => {
      if (!error) {
        this.reported++;
      } else if (LATER.includes(error.code)) {
        kept.push(batch[i]);
        why = new Unavailable(error.message);
      } else {
        this.#refuse(batch[i], `${error.code}: ${error.message}`);
      }
    });
    return [kept, why];
  }

  #refuse(task, reason) {
    this.refused++;
    this.onRefused(task, reason);
  }

  /** close() shortens the pause. */
  async #pause(error, wait) {
    this.failedCalls++;
    this.lastError = error.message;
    const pause = Math.max(error.waitMs ?? 0, spread(wait));
    for (const until = Date.now() + pause; !this.closingAt && Date.now() < until;)
      await this.#change(until - Date.now());
    if (this.closingAt) await sleep(Math.min(pause, WAIT_MS));
  }
}

/** Receives the calls of the handler `http`. A task may be called again after it took effect: keep
 * the Idempotency-Key with the effect, in one transaction of your database; here it is in memory. */
export function webhook(failures) {
  const calls = new Map();
  const done = new Set();
  return (request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      let params;
      try {
        params = JSON.parse(Buffer.concat(parts).toString() || 'null');
      } catch {
        response.writeHead(422, { 'tallybox-no-retry': '1' }).end(); // ends the task
        return;
      }
      if (request.url.endsWith('/tallybox/config')) {
        console.log(JSON.stringify({ config: params.version }));
        response.writeHead(200).end();
        return;
      }
      const key = request.headers['idempotency-key'] ?? '';
      calls.set(key, (calls.get(key) ?? 0) + 1);
      let result = 'done';
      if (done.has(key)) result = 'repeated';
      else if (calls.get(key) <= failures) result = 'failed';
      else done.add(key);
      const attempt = Number(request.headers['tallybox-attempt'] ?? 0);
      console.log(JSON.stringify({ result, key, params, attempt }));
      response.writeHead(result === 'failed' ? 503 : 200).end(); // 503: tried again
    });
  };
}

function makeClient() {
  return new Client(process.env.TALLYBOX_URL ?? 'http://127.0.0.1:8080', process.env.TALLYBOX_TOKEN ?? '');
}

function receive(port, failures) {
  const server = createServer(webhook(failures));
  process.on('SIGTERM', () => {
    server.close();
    server.closeIdleConnections();
  });
  server.listen(port, '127.0.0.1', () => {
    const listening = server.address().port;
    const group = process.env.TALLYBOX_GROUP;
    console.log(JSON.stringify({ listening }));
    if (group) keepBeating(makeClient(), { group, address: `http://127.0.0.1:${listening}`, version: 'node' });
  });
}

async function report(count, url) {
  const reporter = new Reporter(makeClient());
  const run = randomUUID().slice(0, 8);
  const work = () => {
    throw new Error('the other system does not answer');
  };
  for (let number = 0; number < count; number++) {
    console.log(await reporter.attempt(work, {
      scene: 'webhook',
      handler: 'http',
      bizNo: String(number),
      idempotencyKey: `${run}/${number}`,
      options: { url },
      params: { number },
    }, { waitMs: 1 }));
  }
  const lost = await reporter.close();
  console.log(JSON.stringify({
    reported: reporter.reported,
    refused: reporter.refused,
    lost: lost.length,
    failedCalls: reporter.failedCalls,
  }));
  if (lost.length > 0 || reporter.refused > 0) {
    console.error(`not all tasks were handed over; last error: ${reporter.lastError}`);
    process.exitCode = 1;
  }
}

async function main([command, ...words]) {
  if (command === 'receive' && (words.length === 1 || words.length === 2)) {
    receive(Number(words[0]), Number(words[1] ?? 0));
  } else if (command === 'report' && words.length === 2) {
    await report(Number(words[0]), words[1]);
  } else {
    console.error('usage: tallybox_tasks.mjs receive PORT [FAILURES] | report COUNT WEBHOOK');
    process.exitCode = 2;
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  await main(process.argv.slice(2));
}
