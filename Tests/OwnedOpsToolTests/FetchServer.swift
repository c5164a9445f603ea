import Foundation
import Testing

@testable import OwnedOpsTool

/// A server for `ownedops fetch`, in Python, on loopback. It goes when this process does.
struct FetchServer: Sendable {
  let base: String
  /// Another host, so far as limits are concerned: another port.
  let other: String

  /// Nil where there is no Python.
  static let shared: FetchServer? = {
    guard let server = try? FetchServer() else {
      print("notice: tests of ownedops fetch against a server are skipped: python3 can't be started")
      return nil
    }
    return server
  }()

  static var isThere: Bool { shared != nil }

  private struct NoPort: Error {}

  private init() throws {
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    try directory.write("server.py", Self.script)
    let child = try Child(
      ["python3", "server.py", "\(getpid())"], in: directory, output: directory.path + "/port", errors: directory.path + "/errors")
    while true {
      let line = directory.read("port")
      let ports = line.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
      if line.hasSuffix("\n"), ports.count == 2 {
        base = "http://127.0.0.1:\(ports[0])"
        other = "http://127.0.0.1:\(ports[1])"
        return
      }
      var status: Int32 = 0
      guard waitpid(child.identifier, &status, WNOHANG) == 0 else { throw NoPort() }
      usleep(10_000)
    }
  }

  /// What the server answers with: `length` letters of the alphabet.
  static func content(_ length: Int) -> String {
    let alphabet = "abcdefghijklmnopqrstuvwxyz"
    return String(String(repeating: alphabet, count: length / 26 + 1).prefix(length))
  }

  private static let script = #"""
    import collections, http.server, json, os, socket, socketserver, sys, threading, time, urllib.parse

    lock = threading.Condition()
    counts = collections.Counter()
    under_way = collections.Counter()
    most = collections.Counter()
    order = collections.defaultdict(list)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments): pass

        def do_GET(self):
            url = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(url.query))
            key = query.get("id", "")
            with lock:
                counts[key] += 1
                count = counts[key]
                under_way[key] += 1
                most[key] = max(most[key], under_way[key])
                order[key].append(url.path[1:])
                lock.notify_all()
            self.key = key
            try: self.route(url, query, key, count)
            except OSError: self.close_connection = True
            finally: self.leave()

        # Before the end of an answer: who has that may ask for the next before this thread goes on.
        def leave(self):
            with lock:
                if self.key is not None: under_way[self.key] -= 1
                self.key = None

        def answer(self, status, body, headers={}):
            self.leave()
            self.send_response(status)
            for name, value in headers.items(): self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def told(self, what, key):
            with lock: return " ".join(order[key]) if what == "order" else str({"most": most, "count": counts}[what][key])

        def route(self, url, query, key, count):
            if "status" in query: return self.answer(int(query["status"]), b"no")
            if "to" in query: return self.answer(302, b"", {"Location": bytes.fromhex(query["to"]).decode()})
            if "loop" in query: return self.answer(302, b"", {"Location": self.path})
            if "tell" in query: return self.answer(200, self.told(query["tell"], query["of"]).encode())
            if "headers" in query: return self.answer(200, json.dumps({n.lower(): v for n, v in self.headers.items()}).encode())
            if "with" in query:  # not before two of each of these have been under way at once
                with lock: reached = lock.wait_for(lambda: all(most[name] >= 2 for name in query["with"].split(",")), timeout=40)
                if not reached: return self.answer(504, b"alone")
            if "pause" in query: time.sleep(float(query["pause"]))
            # `length` letters, with a tag and ranges. The first `cuts` answers break off after half, or with `hang` stop there.
            length = int(query.get("length", "100"))
            data = (b"abcdefghijklmnopqrstuvwxyz" * (length // 26 + 1))[:length]
            status, start = 200, 0
            headers = {"ETag": '"1"'}
            if "disposition" in query: headers["Content-Disposition"] = query["disposition"]
            asked = self.headers.get("Range")
            if asked and self.headers.get("If-Range") == '"1"':
                status, start = 206, int(asked.split("=")[1].split("-")[0])
                headers["Content-Range"] = f"bytes {start}-{length - 1}/{length}"
            self.leave()
            self.send_response(status)
            for name, value in headers.items(): self.send_header(name, value)
            self.send_header("Content-Length", str(length - start))
            self.end_headers()
            if count > int(query.get("cuts", "0")): return self.wfile.write(data[start:])
            self.wfile.write(data[start:(start + length) // 2])
            if "hang" in query:
                while self.connection.recv(65536): pass
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
        daemon_threads = True
        request_queue_size = 512
        def handle_error(self, request, address): pass

    servers = [Server(("127.0.0.1", 0), Handler) for _ in range(2)]
    for server in servers: threading.Thread(target=server.serve_forever, daemon=True).start()
    print(servers[0].server_address[1], servers[1].server_address[1], flush=True)
    while os.getppid() == int(sys.argv[1]): time.sleep(0.2)
    """#
}
