package oauth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"trafficup/internal/secret"
)

const (
	commandTimeout = 10 * time.Second
	minInterval    = 10 * time.Second
	ahead          = 0.2
)

// Command returns the source of the token that a program prints: the token alone,
// or JSON with access_token and, in seconds, expires_in. The program is run
// without a shell, has ten seconds, and is run again when most of the lifetime is
// over and when its token is refused. The first line it writes to stderr is
// quoted in the error, so it must not be a secret.
func Command(argv []string) Source {
	return &refresher{
		fetch:   func(ctx context.Context, _ secret.Secret) (grant, error) { return run(ctx, argv) },
		timeout: commandTimeout, minInterval: minInterval, ahead: ahead,
	}
}

func run(ctx context.Context, argv []string) (grant, error) {
	if len(argv) == 0 {
		return grant{}, denied("token command is empty")
	}
	var out, complaint bounded
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.WaitDelay = time.Second // its children may hold the pipes open
	if err := cmd.Start(); err != nil {
		return grant{}, denied(fmt.Sprintf("token command %s: %v", argv[0], err))
	}
	err := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case out.over:
		err = fmt.Errorf("printed more than %d KiB", maxAnswer>>10)
	}
	if err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(string(complaint.kept)), "\n")
		return grant{}, unavailable(strings.TrimSuffix(fmt.Sprintf("token command %s: %v: %s", argv[0], err, line), ": "))
	}
	g, err := printed(out.kept)
	if err != nil {
		return grant{}, unavailable(fmt.Sprintf("token command %s: %v", argv[0], err))
	}
	return g, nil
}

// printed reads what a command printed. No error shows any of it.
func printed(out []byte) (grant, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(out), []byte("{")) {
		value, err := secret.Clean(out)
		if err != nil {
			return grant{}, fmt.Errorf("its output %w", err)
		}
		return grant{value: value}, nil
	}
	a, ok := decode(out)
	if !ok {
		return grant{}, errors.New("its output is not the JSON of a token")
	}
	return a.grant()
}

// bounded keeps the first maxAnswer bytes and drops the rest, so that a program
// that talks much is not stopped by it. The buffer is not embedded: its ReadFrom
// would be used in place of Write.
type bounded struct {
	kept []byte
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), maxAnswer-len(b.kept))
	b.over = b.over || keep < len(p)
	b.kept = append(b.kept, p[:keep]...)
	return len(p), nil
}
