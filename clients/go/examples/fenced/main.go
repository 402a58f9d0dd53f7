// SPDX-License-Identifier: MIT

// A write that cannot come too late: the resource refuses an old token. Here
// the cluster remembers the highest token for it (FENCE.ADMIT); a database does
// that itself, with "UPDATE ... WHERE fence <= token".
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"hasp"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	session, err := hasp.Open(ctx, hasp.Options{})
	if err != nil {
		return err
	}
	defer session.Close(ctx)
	lock := session.NewLock("ledger", hasp.LockOptions{})
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	old := lock.Token()
	if err := lock.Unlock(ctx); err != nil {
		return err
	}
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	if err := lock.Guard(time.Second); err != nil {
		return err // A step of a second does not fit into the lease.
	}
	for _, token := range []int64{lock.Token(), old} {
		admitted, err := session.Admit(ctx, "ledger-file", token)
		if err != nil {
			return err
		}
		fmt.Printf("token %d: write %v\n", token, admitted)
	}
	return nil
}
