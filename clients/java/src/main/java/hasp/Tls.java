// SPDX-License-Identifier: MIT

package hasp;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.Socket;
import java.nio.channels.Channels;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SecureDirectoryStream;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.Signature;
import java.security.cert.CertPathValidator;
import java.security.cert.CertPathValidatorException;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.PKIXParameters;
import java.security.cert.X509Certificate;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/**
 * TLS 1.3 with a node of the cluster. Both ends are authenticated by one URI in
 * their certificates, not by host names (docs/security.md).
 */
final class Tls {
    // A type of getSubjectAlternativeNames().
    private static final Integer URI = 6;

    /** Checks that only its owner may read the key. */
    private static final Set<PosixFilePermission> TOO_MANY =
        PosixFilePermissions.fromString("----w-rwx");

    /** Part of a message of the JDK, and its meaning for a client of hasp. If
     * the node refused the handshake, the log of the node has the details. */
    private static final List<Map.Entry<String, String>> SENTENCES = List.of(
        Map.entry("PKIX path", "the node's certificate was made by another CA than "
            + "that in ca.crt: take the cluster's"),
        Map.entry("alert: unknown_ca", "the node does not know the CA of this "
            + "client's certificate: take one made by hasp cert user"),
        Map.entry("alert: certificate_expired", "this client's certificate has "
            + "expired: hasp cert renew"),
        Map.entry("fatal alert", "the node refuses this client's certificate; its "
            + "log says why"),
        Map.entry("unrecognized SSL message", "the node does not use TLS: set tls.client "
            + "there, or give no certificates"));

    private final SSLContext context;
    private final String cluster;
    /** The user that the client's own certificate names; or "". */
    final String user;

    /** 'folder' has ca.crt and, if the program has a certificate, client.crt and
     * client.key, with these 'texts'. 'cluster' is its name; null: the CA
     * contains it. */
    Tls(String folder, String cluster, List<String> texts) {
        Path path = Path.of(folder);
        try {
            List<Certificate> ca = certificates(path.resolve("ca.crt"),
                texts.get(0));
            KeyStore trusted = KeyStore.getInstance("PKCS12");
            trusted.load(null, null);
            for (Certificate one : ca) {
                trusted.setCertificateEntry("ca" + trusted.size(), one);
            }
            var trust = TrustManagerFactory.getInstance(
                TrustManagerFactory.getDefaultAlgorithm());
            trust.init(trusted);
            KeyStore own = KeyStore.getInstance("PKCS12");
            own.load(null, null);
            user = texts.get(1).isEmpty() && texts.get(2).isEmpty() ? ""
                : addPair(own, path, texts, trusted);
            var keys = KeyManagerFactory.getInstance(
                KeyManagerFactory.getDefaultAlgorithm());
            keys.init(own, new char[0]);
            context = SSLContext.getInstance("TLSv1.3");
            context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
            this.cluster = cluster != null ? cluster
                : name((X509Certificate) ca.get(0), "hasp://([^/]+)");
        } catch (IOException | GeneralSecurityException e) {
            throw new IllegalArgumentException("TLS: " + folder + ": "
                + (e.getMessage() == null ? e : e.getMessage())
                + "; make it with: hasp cert user", e);
        }
    }

    /** The contents of ca.crt, client.crt and client.key, "" for a missing file,
     * from one directory: Kubernetes mounts a secret with "..data" as a link to
     * it, and replaces the link at each update. */
    static List<String> read(String folder) throws IOException {
        Path data = Path.of(folder, "..data");
        Path from = Files.exists(data.resolve("ca.crt")) ? data : Path.of(folder);
        List<String> texts = new ArrayList<>();
        try (DirectoryStream<Path> at = Files.newDirectoryStream(from)) {
            for (String name : List.of("ca.crt", "client.crt", "client.key")) {
                texts.add(at instanceof SecureDirectoryStream<Path> open
                    ? readIn(open, folder, name)
                    : readAt(from.toRealPath(), folder, name));
            }
        } catch (NoSuchFileException e) {
            throw new IOException("TLS: '" + folder + "' is missing", e);
        }
        return texts;
    }

    private static String readIn(SecureDirectoryStream<Path> at, String folder,
            String name) throws IOException {
        Path path = Path.of(name);
        try (var channel = at.newByteChannel(path, Set.of(StandardOpenOption.READ))) {
            if (name.endsWith(".key")) {
                checkMode(Path.of(folder, name), at.getFileAttributeView(path,
                    PosixFileAttributeView.class).readAttributes().permissions());
            }
            return new String(Channels.newInputStream(channel).readAllBytes(),
                StandardCharsets.ISO_8859_1);
        } catch (NoSuchFileException e) {
            return "";
        }
    }

    private static String readAt(Path at, String folder, String name)
            throws IOException {
        try {
            if (name.endsWith(".key")) {
                checkMode(Path.of(folder, name),
                    Files.getPosixFilePermissions(at.resolve(name)));
            }
            return Files.readString(at.resolve(name), StandardCharsets.ISO_8859_1);
        } catch (NoSuchFileException e) {
            return "";
        }
    }

    private static void checkMode(Path key, Set<PosixFilePermission> modes)
            throws IOException {
        if (modes.stream().anyMatch(TOO_MANY::contains)) {
            throw new IOException("other users can read or write the key file '" + key
                + "': chmod 0600 it");
        }
    }

    /** Returns the user that the certificate names. */
    private static String addPair(KeyStore own, Path folder, List<String> texts,
            KeyStore trusted) throws IOException, GeneralSecurityException {
        Path certificate = folder.resolve("client.crt");
        Path keyPath = folder.resolve("client.key");
        List<Certificate> chain = certificates(certificate, texts.get(1));
        PrivateKey key = key(keyPath, texts.get(2));
        String algorithm = switch (key.getAlgorithm()) {
            case "EC" -> "SHA256withECDSA";
            case "RSA" -> "SHA256withRSA";
            default -> key.getAlgorithm();
        };
        boolean fits = key.getAlgorithm().equals(
            chain.get(0).getPublicKey().getAlgorithm());
        if (fits) {
            byte[] text = {1, 2, 3};
            Signature signer = Signature.getInstance(algorithm);
            signer.initSign(key);
            signer.update(text);
            byte[] signature = signer.sign();
            signer.initVerify(chain.get(0).getPublicKey());
            signer.update(text);
            fits = signer.verify(signature);
        }
        if (!fits) {
            throw new IOException("the key '" + keyPath + "' does not match the "
                + "certificate '" + certificate + "'");
        }
        checkChain(certificate, chain, trusted);
        own.setKeyEntry("client", key, new char[0],
            chain.toArray(Certificate[]::new));
        return String.join(" ", names((X509Certificate) chain.get(0)));
    }

    /** Checks that a node with the same CAs would accept the certificate. */
    private static void checkChain(Path path, List<Certificate> chain,
            KeyStore trusted) throws IOException, GeneralSecurityException {
        var how = new PKIXParameters(trusted);
        how.setRevocationEnabled(false);
        try {
            CertPathValidator.getInstance("PKIX").validate(
                CertificateFactory.getInstance("X.509").generateCertPath(chain), how);
        } catch (CertPathValidatorException e) {
            throw new IOException("the certificate '" + path + "' was not issued by "
                + "the CA in ca.crt, or is not valid now: " + e.getMessage(), e);
        }
    }

    /** True if one end rejected the other's certificate. */
    static final class Distrust extends IOException {
        private static final long serialVersionUID = 1;

        Distrust(String text, IOException cause) {
            super(text, cause);
        }
    }

    /** The message for people, if there is one. */
    static IOException explained(IOException error) {
        String text = String.valueOf(error.getMessage());
        return SENTENCES.stream().filter(one -> text.contains(one.getKey()))
            .findFirst().<IOException>map(one -> new Distrust(one.getValue(), error))
            .orElse(error);
    }

    private static List<Certificate> certificates(Path path, String text)
            throws IOException, GeneralSecurityException {
        if (text.split("-----BEGIN", -1).length
                != text.split("-----END", -1).length) {
            throw new IOException("'" + path + "' is truncated: copy the file again");
        }
        Collection<? extends Certificate> found =
            CertificateFactory.getInstance("X.509").generateCertificates(
                new ByteArrayInputStream(
                    text.getBytes(StandardCharsets.ISO_8859_1)));
        if (found.isEmpty()) {
            throw new IOException("'" + path + "' is missing or has no "
                + "certificate");
        }
        return new ArrayList<>(found);
    }

    private static PrivateKey key(Path path, String text)
            throws IOException, GeneralSecurityException {
        var spec = new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(
            text.replaceAll("-----[A-Z ]+-----", "")));
        for (String kind : List.of("EC", "Ed25519", "RSA")) {
            try {
                return KeyFactory.getInstance(kind).generatePrivate(spec);
            } catch (InvalidKeySpecException e) {
                // It is of another kind.
            }
        }
        throw new IOException("'" + path + "' has no PKCS #8 key");
    }

    private static List<String> names(X509Certificate certificate)
            throws GeneralSecurityException {
        List<String> names = new ArrayList<>();
        var all = certificate.getSubjectAlternativeNames();
        for (List<?> one : all == null ? List.<List<?>>of() : all) {
            if (URI.equals(one.get(0)) && ((String) one.get(1)).startsWith("hasp:")) {
                names.add((String) one.get(1));
            }
        }
        return names;
    }

    /** The only hasp name in a certificate; returns its first group. */
    private static String name(X509Certificate certificate, String form)
            throws IOException, GeneralSecurityException {
        List<String> names = names(certificate);
        if (names.size() != 1 || !names.get(0).matches(form)) {
            throw new IOException("the certificate of '"
                + certificate.getSubjectX500Principal().getName() + "' names "
                + names + ", not " + form);
        }
        return names.get(0).replaceAll(form, "$1");
    }

    /** Performs the handshake; the peer must be a node of the cluster. */
    Socket secure(Socket plain, String host, long until) throws IOException {
        var socket = (SSLSocket) context.getSocketFactory().createSocket(
            plain, host, plain.getPort(), true);
        socket.setEnabledProtocols(new String[] {"TLSv1.3"});
        plain.setSoTimeout((int) Math.max(1, Time.left(until) / Time.MS));
        socket.startHandshake();
        plain.setSoTimeout(0);
        try {
            String found = name((X509Certificate)
                socket.getSession().getPeerCertificates()[0],
                "hasp://([^/]+)/node/[0-9]+");
            if (!found.equals(cluster)) {
                throw new IOException("the node's certificate is for '" + found
                    + "', not '" + cluster + "'");
            }
        } catch (GeneralSecurityException e) {
            throw new IOException(e);
        }
        return socket;
    }
}
