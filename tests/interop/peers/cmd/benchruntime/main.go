// benchruntime is Go's side of the relay benchmark: its adaptation on a socket, driven by
// lines on stdin, each answered by one line of JSON on stdout. tests/bench has the same
// program in Rust (relay-bench relay), and the controller of both.
//
//	              {"versions":"…"} once it listens
//	wait N        {"plugins":N} once N plugins are registered, configured and synchronized
//	run N CHUNK   N requests StartContainer by one caller, see measure.go
//	quit          {}, and the end
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	goruntime "runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	"google.golang.org/protobuf/proto"
)

const (
	nowhere     = "/nonexistent" // a directory without plugins
	joinTimeout = 20 * time.Second
)

func main() {
	socket := flag.String("socket", "", "socket to listen on")
	request := flag.String("request", "", "file with the encoded StartContainerRequest")
	flag.Parse()
	nrilog.Set(silence{})
	if err := serve(*socket, *request); err != nil {
		fmt.Fprintf(os.Stderr, "benchruntime: %v\n", err)
		os.Exit(1)
	}
}

func serve(socket, file string) error {
	r, err := start(socket, file)
	if err != nil {
		return err
	}
	defer r.nri.Stop()
	answers := json.NewEncoder(os.Stdout)
	if err := answers.Encode(map[string]string{"versions": versions()}); err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer, err := r.obey(lines.Text())
		if err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
		if lines.Text() == "quit" {
			return nil
		}
	}
	return nil
}

// runtime is the adaptation, and what it relays.
type runtime struct {
	nri     *adaptation.Adaptation
	request *api.StartContainerRequest
	serial  int
	plugins atomic.Int64 // how many are active
}

func start(socket, file string) (*runtime, error) {
	encoded, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &runtime{request: &api.StartContainerRequest{}}
	if err := proto.Unmarshal(encoded, r.request); err != nil {
		return nil, err
	}
	r.nri, err = adaptation.New("benchruntime", "v0.0.0", synchronize, update,
		adaptation.WithPluginPath(nowhere),
		adaptation.WithPluginConfigPath(nowhere),
		adaptation.WithSocketPath(socket),
		adaptation.WithMetrics(metrics{&r.plugins}),
	)
	if err != nil {
		return nil, err
	}
	return r, r.nri.Start()
}

// versions says what is measured.
func versions() string {
	said := goruntime.Version()
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		switch module.Path {
		case "github.com/containerd/nri", "github.com/containerd/ttrpc", "google.golang.org/protobuf":
			said += ", " + module.Path + " " + module.Version
		}
	}
	return said
}

func synchronize(ctx context.Context, deliver adaptation.SyncCB) error {
	_, err := deliver(ctx, nil, nil)
	return err
}

func update(context.Context, []*adaptation.ContainerUpdate) ([]*adaptation.ContainerUpdate, error) {
	return nil, nil
}

func (r *runtime) obey(line string) (any, error) {
	var n, chunk int
	if line == "quit" {
		return struct{}{}, nil
	}
	if _, err := fmt.Sscanf(line, "wait %d", &n); err == nil {
		return r.wait(n)
	}
	if _, err := fmt.Sscanf(line, "run %d %d", &n, &chunk); err == nil && chunk > 0 {
		return r.run(n, chunk)
	}
	return nil, fmt.Errorf("not understood")
}

func (r *runtime) wait(n int) (any, error) {
	for end := time.Now().Add(joinTimeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if r.plugins.Load() == int64(n) {
			return map[string]int{"plugins": n}, nil
		}
	}
	return nil, fmt.Errorf("%d are active after %v", r.plugins.Load(), joinTimeout)
}

// metrics is how the adaptation tells the number of its active plugins; it does so after
// each request, too, and must not be kept waiting.
type metrics struct{ plugins *atomic.Int64 }

func (m metrics) UpdatePluginCount(count int) { m.plugins.Store(int64(count)) }

func (metrics) RecordPluginInvocation(string, string, error)                                      {}
func (metrics) RecordPluginLatency(string, string, time.Duration)                                 {}
func (metrics) RecordPluginAdjustments(string, string, *adaptation.ContainerAdjustment, int, int) {}

// silence keeps the log out of the measurement; what fails ends the program with an error.
type silence struct{}

func (silence) Debugf(context.Context, string, ...any) {}
func (silence) Infof(context.Context, string, ...any)  {}
func (silence) Warnf(context.Context, string, ...any)  {}
func (silence) Errorf(context.Context, string, ...any) {}
