// SPDX-License-Identifier: MIT

package hasp;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Carries bytes to a node, and breaks when the test says so. */
final class Wire implements AutoCloseable {
    private final Set<Socket> open = ConcurrentHashMap.newKeySet();
    private final ServerSocket listener;

    Wire(String endpoint) throws IOException {
        listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        String[] to = endpoint.split(":");
        start(() -> {
            for (;;) {
                Socket one = listener.accept();
                try {
                    Socket other = new Socket(to[0], Integer.parseInt(to[1]));
                    open.add(one);
                    open.add(other);
                    start(() -> carry(one, other));
                    start(() -> carry(other, one));
                } catch (IOException e) {
                    one.close();
                }
            }
        });
    }

    String endpoint() {
        return "127.0.0.1:" + listener.getLocalPort();
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException e) {
                // It was cut.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private void carry(Socket from, Socket to) throws IOException {
        try (from; to) {
            from.setTcpNoDelay(true);
            from.getInputStream().transferTo(to.getOutputStream());
        } finally {
            open.remove(from);
        }
    }

    void cut() {
        for (Socket one : open) {
            try {
                one.close();
            } catch (IOException e) {
                // It is closed.
            }
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
        cut();
    }
}
