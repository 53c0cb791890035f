// Command rss prints the peak memory of an upload of many generated records
// from standard input to a separate sandbox process without faults.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"time"
)

func main() {
	bin := flag.String("bin", "bin/trafficup", "the program to measure")
	n := flag.Int("n", 2_000_000, "records")
	concurrency := flag.Int("concurrency", 16, "requests in flight")
	flag.Parse()
	if err := measure(*bin, *n, *concurrency); err != nil {
		log.Fatal(err)
	}
}

func measure(bin string, n, concurrency int) error {
	sandbox := exec.Command(bin, "sandbox", "--listen", "127.0.0.1:0")
	out, err := sandbox.StderrPipe()
	if err != nil {
		return err
	}
	sandbox.Stdout = os.Stdout
	if err := sandbox.Start(); err != nil {
		return err
	}
	defer func() {
		sandbox.Process.Signal(syscall.SIGTERM)
		sandbox.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return err
	}
	url := regexp.MustCompile(`http://\S+`).FindString(line)
	dir, err := os.MkdirTemp("", "trafficup-rss")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	up := exec.Command(bin, "upload", "--url", url, "--state-dir", dir, "--concurrency", fmt.Sprint(concurrency), "-")
	up.Stdout, up.Stderr = os.Stdout, os.Stderr
	in, err := up.StdinPipe()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := up.Start(); err != nil {
		return err
	}
	w := bufio.NewWriterSize(in, 1<<16)
	for i := range n {
		fmt.Fprintf(w, `{"spot_id":"SP-%07d","idempotency_key":"WXYZ-20260717-%07d-r1","payload":{"house_number":"WXYZ-%07d","title":"Spring sale","air_time":"06:14:30","duration":"00:00:30"},"market":"501","station":"WXYZ-FM","air_date":"2026-07-17"}`+"\n", i, i, i)
	}
	w.Flush()
	in.Close()
	err = up.Wait()
	usage := up.ProcessState.SysUsage().(*syscall.Rusage)
	d := time.Since(start)
	fmt.Printf("records %d  time %s  rate %.0f/s  peak RSS %.1f MiB  CPU per record %.1f us\n",
		n, d.Round(time.Millisecond), float64(n)/d.Seconds(), float64(usage.Maxrss)/1024,
		float64((up.ProcessState.UserTime()+up.ProcessState.SystemTime()).Microseconds())/float64(n))
	return err
}
