/// A server for the tests, in Python: real HTTP on loopback, with faults on demand. Every path is explained beside its code.
///
/// It prints its two ports (two origins for redirects), and goes when its standard input ends, as it does with the test process.
let serverScript = #"""
  import base64, collections, gzip, hashlib, http.server, json, os, resource, socket, socketserver, struct, sys, threading, time, urllib.parse

  lock = threading.Condition()
  counts = collections.Counter()   # requests by id
  closed = collections.Counter()   # connections that a client has closed while its request hung, by id
  open_now = collections.Counter() # requests that have no answer yet (hanging or held ones, mostly), by id
  most = collections.Counter()     # the most of them at once
  sent = collections.Counter()     # bytes without end that went out, by id
  counters = {"closed": closed, "count": counts, "open": open_now, "most": most, "sent": sent}
  released = set()

  class Handler(http.server.BaseHTTPRequestHandler):
      protocol_version = "HTTP/1.1"

      open_key = None

      def log_message(self, *arguments): pass

      def body(self):
          if self.headers.get("Transfer-Encoding") == "chunked":
              data = b""
              while True:
                  size = int(self.rfile.readline(), 16)
                  data += self.rfile.read(size)
                  self.rfile.readline()
                  if size == 0: return data
          return self.rfile.read(int(self.headers.get("Content-Length") or 0))

      def answer(self, status=200, body=b"", headers={}, length=True):
          self.is_no_longer_open()
          self.send_response(status)
          for name, value in headers.items(): self.send_header(name, value)
          if length and "Content-Length" not in headers and status not in (204, 304):
              self.send_header("Content-Length", str(len(body)))
          self.end_headers()
          if self.command != "HEAD" and status not in (204, 304): self.wfile.write(body)

      def cut(self):
          self.close_connection = True
          self.connection.shutdown(socket.SHUT_RDWR)

      def wait_for_close(self, key):
          try:
              while self.connection.recv(65536): pass
          except OSError: pass
          self.has_closed(key)

      def has_closed(self, key):
          with lock:
              closed[key] += 1
              lock.notify_all()
          self.close_connection = True

      def wait_for_release(self, key):
          with lock: lock.wait_for(lambda: key in released, timeout=600)

      # Before a client can have the answer: it may send the next request as soon as it has, which must not count beside this one.
      def is_no_longer_open(self):
          with lock:
              if self.open_key is None: return
              open_now[self.open_key] -= 1
              self.open_key = None
              lock.notify_all()

      def handle_any(self):
          url = urllib.parse.urlsplit(self.path)
          query = dict(urllib.parse.parse_qsl(url.query))
          key = query.get("id", "")
          with lock:
              counts[key] += 1
              count = counts[key]
              self.open_key = key
              open_now[key] += 1
              most[key] = max(most[key], open_now[key])
              lock.notify_all()
          try:
              self.route(url, query, key, count)
          except (BrokenPipeError, ConnectionResetError):
              self.close_connection = True
          finally:
              self.is_no_longer_open()

      do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = handle_any

      def route(self, url, query, key, count):
          path = url.path
          if path == "/echo":  # what came
              data = self.body()
              told = {"method": self.command, "query": url.query, "headers": {n.lower(): v for n, v in self.headers.items()},
                      "length": len(data), "sha256": hashlib.sha256(data).hexdigest(), "body": data[:4096].decode("latin-1"), "count": count}
              self.answer(body=json.dumps(told).encode(), headers={"Content-Type": "application/json"})
          elif path == "/order":  # which request of this id it was
              self.answer(headers={"X-Order": str(count)})
          elif path == "/status":  # any status, with a body
              self.body()
              headers = json.loads(query.get("headers", "{}"))
              self.answer(int(query["status"]), query.get("body", "").encode(), headers)
          elif path == "/flaky":  # fails the first `failures` times
              self.body()
              if count > int(query["failures"]): self.answer(body=str(count).encode())
              elif query.get("how") == "cut": self.cut()
              else: self.answer(int(query.get("status", "503")), b"busy", json.loads(query.get("headers", "{}")))
          elif path == "/hang":  # answers nothing until the client goes
              self.wait_for_close(key)
          elif path == "/drip":  # a header, some bytes, and nothing more until the client goes
              self.send_response(200)
              self.send_header("Content-Length", "1000000")
              self.end_headers()
              self.wfile.write(b"x" * 1000)
              self.wait_for_close(key)
          elif path == "/flood":  # bytes without end, until the client goes
              self.send_response(int(query.get("status", "200")))
              self.send_header("Content-Length", str(10 ** 12))
              if "etag" in query: self.send_header("ETag", '"1"')
              self.end_headers()
              try:
                  while True: self.wfile.write(b"x" * 65536)
              except OSError: pass
              self.has_closed(key)
          elif path == "/held":  # answers once /release has come
              self.wait_for_release(key)
              self.answer(body=query.get("body", str(count)).encode(), headers=json.loads(query.get("headers", "{}")))
          elif path == "/cut-when-released":
              self.wait_for_release(key)
              self.cut()
          elif path == "/unread":  # reads nothing of the body before /release, and then until the client goes
              self.wait_for_release(key)
              self.wait_for_close(key)
          elif path == "/slowly":  # reads the body in pieces, with a pause after each, and says how long it was
              # Or the system takes tens of megabytes ahead, and the client has nothing left to send.
              self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
              length = 0
              while length < int(self.headers["Content-Length"]):
                  length += len(self.rfile.read(min(int(query["piece"]), int(self.headers["Content-Length"]) - length)))
                  time.sleep(float(query["pause"]))
              self.answer(body=str(length).encode())
          elif path == "/release":
              with lock:
                  released.add(query["of"])
                  lock.notify_all()
              self.answer()
          elif path == "/redirect":
              data = self.body()
              self.answer(int(query.get("status", "302")), b"moved", {"Location": query["to"]})
          elif path == "/moving":  # leads to another place after `changes` requests
              to = query["first"] if count <= int(query["changes"]) else query["then"]
              self.answer(302, b"moved", {"Location": to, **json.loads(query.get("headers", "{}"))})
          elif path == "/loop":
              self.answer(302, b"", {"Location": f"/loop?id={key}&n={count}"})
          elif path == "/cut":  # cut off in the middle
              self.connection.sendall({
                  "head": b"HTTP/1.1 200 OK\r\nContent-Le",
                  "body": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc",
                  "chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nabc",
                  "nothing": b"",
              }[query["in"]])
              self.cut()
          elif path == "/reset":  # a reset instead of an end
              if query["in"] == "body": self.connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc")
              self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
              self.close_connection = True
              self.connection.close()
          elif path == "/once":  # answers the first such request of a connection, and closes the connection at the next
              data = self.body()
              if hasattr(self, "has_answered"): return self.cut()
              self.has_answered = True
              self.answer(body=data)
          elif path == "/gzip":
              self.answer(body=gzip.compress(b"a" * 100000), headers={"Content-Encoding": "gzip"})
          elif path == "/raw":  # bytes as given
              self.connection.sendall(base64.b64decode(query["bytes"].replace(" ", "+")))
              self.cut()
          elif path == "/endless":  # an answer whose head has no end, in one way or another
              beginning, more = {
                  "lines": (b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"y" * 1000 + b"\r\n"),
                  "line": (b"HTTP/1.1 200 OK\r\nX-More: ", b"y" * 1000),
                  "status": (b"HTTP/1.1 200 ", b"y" * 1000),
                  "folds": (b"HTTP/1.1 200 OK\r\nX-More: a\r\n", b" " + b"y" * 1000 + b"\r\n"),
                  "interim": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: " + b"y" * 1000 + b"\r\n\r\n"),
                  # Many at a time: the client always has some left to read.
                  "trailers": (
                      b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", (b"X-More: " + b"y" * 1000 + b"\r\n") * 64),
              }[query["in"]]
              try:
                  self.connection.sendall(beginning)
                  while True:
                      self.connection.sendall(more)
                      with lock: sent[key] += len(more)
              except OSError: self.has_closed(key)
          elif path == "/validated":  # a tag that changes after `changes` requests
              version = "1" if count <= int(query["changes"]) else "2"
              tag = f'"{version}"'
              same = self.headers.get("If-None-Match") == tag
              text = query.get("text", "version ") + version
              self.answer(304 if same else 200, b"" if same else text.encode(), {"ETag": tag})
          elif path == "/dated":  # the same with a date, and no tag
              date = "Wed, 01 Jan 2020 00:00:00 GMT" if count <= int(query["changes"]) else "Thu, 02 Jan 2020 00:00:00 GMT"
              same = self.headers.get("If-Modified-Since") == date
              self.answer(304 if same else 200, b"" if same else date.encode(), {"Last-Modified": date})
          elif path == "/failing":  # answers once, and fails from then on
              self.answer(200 if count == 1 else 500, b"once")
          elif path == "/bytes":  # `length` bytes, with what the query asks of validators, ranges and cuts
              self.bytes(query, key, count)
          elif path == "/await":  # answers when the counter `what` of `of` has reached `n`
              table = counters[query["what"]]
              with lock:
                  reached = lock.wait_for(lambda: table[query["of"]] >= int(query["n"]), timeout=240)
                  told = table[query["of"]]
              self.answer(200 if reached else 504, str(told).encode())
          elif path == "/tell":  # the counter `what` of `of`, now
              table = counters[query["what"]]
              with lock: told = table[query["of"]]
              self.answer(body=str(told).encode())
          else:
              self.answer(404, b"no such path")

      def bytes(self, query, key, count):
          changes = int(query.get("changes", "0"))  # the content changes after so many requests
          version = "2" if changes and count > changes else "1"
          length = int(query.get("later", query["length"]) if version == "2" else query["length"])
          data = (hashlib.sha256(version.encode()).digest() * (length // 32 + 1))[:length]
          validator = f'"{version}"' if "etag" in query else None
          headers = {"Accept-Ranges": "bytes"}
          if validator: headers["ETag"] = ("W/" if query["etag"] == "weak" else "") + validator
          status, start = 200, 0
          asked = self.headers.get("Range")
          matches = "careless" in query or self.headers.get("If-Range") in (None, validator)  # careless: whatever If-Range says
          if asked and matches and query.get("ranges", "yes") == "yes":
              if query.get("untagged"): del headers["ETag"]
              start = int(asked.split("=")[1].split("-")[0])
              if start >= length or count == int(query.get("refused", "0")):  # refuses the range of the request of this number
                  headers["Content-Range"] = f"bytes */{length}"
                  if query.get("untold"): del headers["Content-Range"]
                  return self.answer(416, b"", headers)
              status = 206
              if query.get("range") == "wrong": start += 1
              headers["Content-Range"] = f"bytes {start}-{length - 1}/{length}"
          elif "start" in query:  # a part that nobody has asked for, with the header `unasked`
              status, start = 206, int(query["start"])
              if "unasked" in query: headers["Content-Range"] = query["unasked"]
          data = data[start:]
          self.send_response(status)
          for name, value in headers.items(): self.send_header(name, value)
          self.send_header("Content-Length", str(len(data) + int(query.get("lie", "0"))))
          self.send_header("X-Range", asked or "none")
          self.send_header("X-Encoding", self.headers.get("Accept-Encoding") or "none")
          self.end_headers()
          if count <= int(query.get("cuts", "0")):  # cut after `after` bytes for the first `cuts` requests
              self.wfile.write(data[:int(query["after"])])
              self.wfile.flush()
              if query.get("then") == "hang": return self.wait_for_close(key)
              return self.cut()
          self.wfile.write(data)

  class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
      daemon_threads = True
      request_queue_size = 2048
      def handle_error(self, request, address): pass

  # A thousand connections, and the threads' own files.
  soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
  wanted = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
  if soft != resource.RLIM_INFINITY and soft < wanted: resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

  servers = [Server(("127.0.0.1", 0), Handler) for _ in range(2)]
  for server in servers: threading.Thread(target=server.serve_forever, daemon=True).start()
  print(servers[0].server_address[1], servers[1].server_address[1], flush=True)
  sys.stdin.read()
  os._exit(0)
  """#
