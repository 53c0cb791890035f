package netshape

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is the program for the processes that tests start.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "netshape" {
		if err := program(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// program is "rollback DIR ID AFTER", "apply DIR", which confirms nothing and
// stays, or "rights".
func program(args []string) error {
	if args[0] == "rights" {
		return kernel{}.Rights()
	}
	m, err := Local(args[1], "", "netshape", "rollback", args[1], "ID", "AFTER")
	if err != nil {
		return err
	}
	m.Kernel = onlyHTB{}
	if args[0] == "rollback" {
		after, err := time.ParseDuration(args[3])
		if err == nil {
			_, err = m.RollbackAfter(context.Background(), args[2], after)
		}
		return err
	}
	o, err := m.Observe("up0")
	if err != nil {
		return err
	}
	if _, err := m.Apply(context.Background(), Make(Desired{Interfaces: []Interface{fifoAt(8000)}}, o, false), 2*time.Second); err != nil {
		return err
	}
	fmt.Println("applied")
	select {}
}
