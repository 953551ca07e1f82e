// A receiver of webhooks: every message is verified with the official package of the specification.

import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

let webhook;

const server = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  try {
    const message = webhook.verify(Buffer.concat(parts).toString(), request.headers);
    console.log(JSON.stringify({ id: message.id, type: message.type }));
    response.writeHead(204).end();
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    console.log(JSON.stringify({ refused: error.message }));
    response.writeHead(400).end();
  }
});

createInterface({ input: process.stdin }).once("line", (secret) => {
  webhook = new Webhook(secret.trim());
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
