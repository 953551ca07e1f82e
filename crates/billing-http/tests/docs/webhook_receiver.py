"""A receiver of webhooks: every message is verified with the official package of the specification."""

import http.server
import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            message = webhook.verify(body, dict(self.headers))
        except WebhookVerificationError as error:
            print(json.dumps({"refused": str(error)}), flush=True)
            self.send_response(400)
        else:
            print(json.dumps({"id": message["id"], "type": message["type"]}), flush=True)
            self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_port, flush=True)
webhook = Webhook(sys.stdin.readline().strip())
server.serve_forever()
