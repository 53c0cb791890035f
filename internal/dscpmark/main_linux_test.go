package dscpmark

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if args := strings.Fields(os.Getenv("DSCPMARK_HELPER")); len(args) > 0 {
		os.Exit(help(args))
	}
	goleak.VerifyTestMain(m)
}

// help is what a test has done by another process.
func help(args []string) int {
	switch args[0] {
	case "talk":
		for i := 1; i < len(args); i += 2 {
			if err := talk(args[i], args[i+1], 0); err != nil {
				fmt.Println(err)
				return 1
			}
		}
	case "try":
		_, err := Read("")
		for _, err := range []error{err, Apply(example), Check(example), Delete("")} {
			fmt.Println(name(err))
		}
		_, err = Collisions(example)
		fmt.Println(name(err))
	}
	return 0
}

func name(err error) string {
	switch {
	case errors.Is(err, ErrPermission):
		return "permission"
	case errors.Is(err, ErrUnsupported):
		return "unsupported"
	}
	return fmt.Sprint(err)
}
