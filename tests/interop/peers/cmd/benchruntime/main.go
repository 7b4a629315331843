// benchruntime is Go's side of the relay benchmark: its adaptation on a socket, driven by
// lines on stdin, each answered by one line of JSON on stdout. tests/bench has the same
// program in Rust (relay-bench adaptation), and the controller of both.
//
//	                               {"versions":"…"} once it listens
//	wait N SECONDS                 {"plugins":N} once N plugins are registered, configured and
//	                               synchronized, or how many there are when the time is over
//	run OP N CHUNK CALLERS BESIDE  N requests, see measure.go
//	quit                           {}, and the end
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

const nowhere = "/nonexistent" // a directory without plugins

func main() {
	socket := flag.String("socket", "", "socket to listen on")
	request := flag.String("request", "", "file with the encoded StartContainerRequest")
	containers := flag.Int("containers", 0, "how many containers there are already")
	flag.Parse()
	nrilog.Set(silence{})
	if err := serve(*socket, *request, *containers); err != nil {
		fmt.Fprintf(os.Stderr, "benchruntime: %v\n", err)
		os.Exit(1)
	}
}

func serve(socket, file string, containers int) error {
	r, err := start(socket, file, containers)
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
	serial  atomic.Int64
	plugins atomic.Int64 // how many are active
}

func start(socket, file string, containers int) (*runtime, error) {
	encoded, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &runtime{request: &api.StartContainerRequest{}}
	if err := proto.Unmarshal(encoded, r.request); err != nil {
		return nil, err
	}
	r.nri, err = adaptation.New("benchruntime", "v0.0.0", r.synchronize(containers), update,
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

// synchronize tells plugins of so many containers, two to a pod.
func (r *runtime) synchronize(n int) adaptation.SyncFn {
	var pods []*api.PodSandbox
	var containers []*api.Container
	for i := range n {
		request := r.prepare(i / 2)
		containers = append(containers, request.Container)
		if i%2 == 0 {
			pods = append(pods, request.Pod)
		}
	}
	return func(ctx context.Context, deliver adaptation.SyncCB) error {
		_, err := deliver(ctx, pods, containers)
		return err
	}
}

func update(context.Context, []*adaptation.ContainerUpdate) ([]*adaptation.ContainerUpdate, error) {
	return nil, nil
}

func (r *runtime) obey(line string) (any, error) {
	var n, seconds int
	var j job
	if line == "quit" {
		return struct{}{}, nil
	}
	if _, err := fmt.Sscanf(line, "wait %d %d", &n, &seconds); err == nil {
		return r.wait(n, time.Duration(seconds)*time.Second), nil
	}
	_, err := fmt.Sscanf(line, "run %s %d %d %d %d", &j.op, &j.n, &j.chunk, &j.callers, &j.beside)
	if err == nil && j.chunk > 0 && j.callers > 0 {
		return r.run(j)
	}
	return nil, fmt.Errorf("not understood")
}

func (r *runtime) wait(n int, timeout time.Duration) any {
	for end := time.Now().Add(timeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if r.plugins.Load() == int64(n) {
			break
		}
	}
	return map[string]int64{"plugins": r.plugins.Load()}
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
