// SPDX-License-Identifier: MIT

package hasp;

/** Closes a resource to earlier holders of a lock: {@link
 * HaspLock.Options#onGrant}. */
@FunctionalInterface
public interface Seal {
    /** From now on the resource must refuse all smaller tokens. */
    void seal(String name, long token) throws Exception;
}
