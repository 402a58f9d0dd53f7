// SPDX-License-Identifier: MIT

package hasp;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A user's secret, from a file that only its owner can read. */
final class Secret {
    private static final Set<PosixFilePermission> OWNERS =
        PosixFilePermissions.fromString("rwx------");
    private static final Pattern FORM =
        Pattern.compile("hasp1\\.([\\w.-]{1,64})\\.[\\w-]{43}");

    private Secret() {
    }

    /** Reads the file. */
    static String read(String file) throws IOException {
        Path path = Path.of(file);
        try {
            checkMode(path);
            return Files.readString(path, StandardCharsets.ISO_8859_1);
        } catch (IOException e) {
            throw new IOException("cannot read the secret in '" + file + "': " + e, e);
        }
    }

    /** The AUTH words for the secret, a line hasp1.NAME.... as written by "hasp
     * secret add". */
    static List<String> auth(String file, String text) {
        Matcher found = FORM.matcher(text.split("\n", 2)[0].strip());
        if (!found.matches()) {
            throw new IllegalArgumentException("no secret in '" + file
                + "': a line hasp1.NAME.... is expected, as 'hasp secret "
                + "add' writes it");
        }
        return List.of("AUTH", found.group(1), found.group());
    }

    private static void checkMode(Path path) throws IOException {
        if (!path.getFileSystem().supportedFileAttributeViews()
            .contains("posix")) { // The file store is not known in a chroot.
            return;
        }
        Set<PosixFilePermission> found = Files.getPosixFilePermissions(path);
        if (!OWNERS.containsAll(found)) {
            throw new IllegalArgumentException("'" + path + "' has a secret "
                + "that others can read (mode "
                + PosixFilePermissions.toString(found) + "): chmod 0600 it");
        }
    }
}
