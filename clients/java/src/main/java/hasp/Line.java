// SPDX-License-Identifier: MIT

package hasp;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/**
 * A byte stream to a node: TCP, TLS over TCP, or a socket of this machine.
 * Closing 'socket' ends reads and writes.
 */
record Line(Closeable socket, InputStream in, OutputStream out) {
    /** Before the path of a node's socket on this machine. */
    static final String SOCKET = "unix:";

    /** Connects until then ({@link Time}). 'tls' can be null; a socket of this
     * machine is not encrypted. */
    static Line open(String endpoint, Tls tls, long until) throws IOException {
        return endpoint.startsWith(SOCKET)
            ? local(endpoint.substring(SOCKET.length()))
            : tcp(endpoint, tls, until);
    }

    private static Line tcp(String endpoint, Tls tls, long until)
            throws IOException {
        int colon = endpoint.lastIndexOf(':');
        String host = endpoint.substring(0, colon).replaceAll("[\\[\\]]", "");
        Socket plain = new Socket();
        try {
            plain.setTcpNoDelay(true);
            plain.connect(new InetSocketAddress(host, Nodes.port(endpoint)),
                (int) Math.max(1, Time.left(until) / Time.MS));
            Socket socket = tls == null ? plain : tls.secure(plain, host, until);
            return new Line(plain, socket.getInputStream(),
                socket.getOutputStream());
        } catch (IOException e) {
            plain.close();
            throw e;
        }
    }

    private static Line local(String path) throws IOException {
        SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            // This connects at once, or the node accepts no more connections.
            channel.configureBlocking(false);
            if (!channel.connect(UnixDomainSocketAddress.of(path))) {
                throw new IOException("too many connections are pending at " + path);
            }
            channel.configureBlocking(true);
            return new Line(channel, new In(channel), new Out(channel));
        } catch (IOException | RuntimeException e) {
            channel.close();
            throw e;
        }
    }

    /** Unlike those of java.nio.channels.Channels, each of these streams
     * continues while the other one waits. */
    private static final class In extends InputStream {
        private final SocketChannel channel;

        In(SocketChannel channel) {
            this.channel = channel;
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] data, int at, int size) throws IOException {
            return channel.read(ByteBuffer.wrap(data, at, size));
        }
    }

    private static final class Out extends OutputStream {
        private final SocketChannel channel;

        Out(SocketChannel channel) {
            this.channel = channel;
        }

        @Override
        public void write(int one) throws IOException {
            write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public void write(byte[] data, int at, int size) throws IOException {
            var left = ByteBuffer.wrap(data, at, size);
            while (left.hasRemaining()) {
                channel.write(left);
            }
        }
    }
}
