#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A TCP proxy that injects faults: proxy.py LINKS

LINKS is a JSON object {name: [port to listen on, port to go to]}; a port is one of 127.0.0.1, or
"address:port". Orders come as JSON lines on stdin: {"link": name, "do": what, "seconds": s}; the end
of stdin ends it.

  cut    resets every connection, and every new one for s seconds
  lose   holds back what the server answers for s seconds, then resets: the request was heard, its
         answer is never seen
  stall  nothing moves for s seconds, in either direction
  slow   every piece waits, for s seconds; {"delay": s} tells how long (0.04)
  heal   ends whatever it was
"""

import asyncio
import json
import socket
import struct
import sys

PIECE_BYTES = 65536
SLOW_S = 0.04
CONNECT_S = 5


def reset(sock):
    """Closes with RST, as a dead machine's successor would answer."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass
    sock.close()


def place_of(port):
    """(address, port) of a port or of "address:port"."""
    if isinstance(port, int):
        return "127.0.0.1", port
    address, number = port.rsplit(":", 1)
    return address, int(number)


class Link:
    """One port to listen on, and what is wrong with it."""

    def __init__(self, name, port, to):
        self.name, self.place, self.to = name, place_of(port), place_of(to)
        self.tasks = set()
        self.refuses = False
        self.delay = 0
        self.gates = {"up": asyncio.Event(), "down": asyncio.Event()}
        self.timer = None
        self.heal()

    def heal(self):
        if self.timer:
            self.timer.cancel()
        self.timer = None
        self.refuses = False
        self.delay = 0
        for gate in self.gates.values():
            gate.set()

    def reset_all(self):
        for task in list(self.tasks):
            task.cancel()

    def do(self, what, seconds, delay=SLOW_S):
        self.heal()
        end = self.heal
        if what == "cut":
            self.refuses = True
            self.reset_all()
        elif what == "lose":
            self.gates["down"].clear()
            end = self.cut_now
        elif what == "stall":
            for gate in self.gates.values():
                gate.clear()
        elif what == "slow":
            self.delay = delay
        elif what != "heal":
            raise ValueError(f"there is no order {what!r}")
        if what != "heal":
            self.timer = asyncio.get_running_loop().call_later(seconds, end)

    def cut_now(self):
        self.reset_all()
        self.heal()

    async def pump(self, source, target, direction):
        loop = asyncio.get_running_loop()
        while True:
            data = await loop.sock_recv(source, PIECE_BYTES)
            await self.gates[direction].wait()
            if self.delay:
                await asyncio.sleep(self.delay)
            if not data:
                target.shutdown(socket.SHUT_WR)
                return
            await loop.sock_sendall(target, data)

    async def serve(self, client):
        """One connection until both sides have ended, or one was reset."""
        loop = asyncio.get_running_loop()
        server = socket.socket()
        pumps = ()
        try:
            for sock in (client, server):
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.wait_for(loop.sock_connect(server, self.to), CONNECT_S)
            pumps = (asyncio.ensure_future(self.pump(client, server, "up")),
                     asyncio.ensure_future(self.pump(server, client, "down")))
            await asyncio.gather(*pumps)
            client.close()
            server.close()
        except (OSError, asyncio.TimeoutError, asyncio.CancelledError):
            pass
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for sock in (client, server):
                if sock.fileno() >= 0:
                    reset(sock)

    async def listen(self):
        loop = asyncio.get_running_loop()
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(self.place)
        listener.listen(256)
        listener.setblocking(False)
        while True:
            client, _ = await loop.sock_accept(listener)
            if self.refuses:
                reset(client)
                continue
            task = asyncio.ensure_future(self.serve(client))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)


async def orders(links):
    """Obeys until stdin ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while True:
        line = await reader.readline()
        if not line:
            return
        order = json.loads(line)
        names = links if order["link"] == "*" else [order["link"]]
        for name in names:
            links[name].do(order["do"], order.get("seconds", 0), order.get("delay", SLOW_S))


async def main():
    links = {name: Link(name, *ports) for name, ports in json.loads(sys.argv[1]).items()}
    listening = [asyncio.ensure_future(link.listen()) for link in links.values()]
    obeying = asyncio.ensure_future(orders(links))
    await asyncio.sleep(0)
    print("listening", flush=True)
    done, _ = await asyncio.wait([obeying, *listening], return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(130)
