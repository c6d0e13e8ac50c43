// SPDX-License-Identifier: MIT

// Hands tasks to the retry queue of tallybox over HTTP, and receives its calls. Standard library
// only, Go 1.21 or newer; copy the file into your project. README.md explains the rules that the
// four files of this folder share.
//
//	tallybox_tasks receive PORT [FAILURES]   a webhook that fails FAILURES times for each task
//	tallybox_tasks report COUNT WEBHOOK      work that fails here and is handed over
//
// TALLYBOX_URL (http://127.0.0.1:8080) and TALLYBOX_TOKEN name the server and the token. With
// TALLYBOX_GROUP the webhook registers itself as a client of this group.
package main

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	batchMax    = 100 // tasks of one request; the server takes 1,000
	callTimeout = 10 * time.Second
	waitMin     = 200 * time.Millisecond // after the first failed request; doubled by each further one
	waitMax     = 30 * time.Second
)

// Task has the fields of TaskRequest of openapi.yaml.
type Task struct {
	Group          string         `json:"group,omitempty"`
	Scene          string         `json:"scene"`
	Handler        string         `json:"handler"`
	OrderingKey    string         `json:"orderingKey,omitempty"`
	IdempotencyKey string         `json:"idempotencyKey,omitempty"`
	BizNo          string         `json:"bizNo,omitempty"`
	Options        map[string]any `json:"options,omitempty"`
	Params         any            `json:"params,omitempty"`
	DelayMs        int64          `json:"delayMs,omitempty"`
}

// Answer to one task: an id, or an error.
type Answer struct {
	ID      int64 `json:"id"`
	Existed bool  `json:"existed"`
	Error   *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// Refused means that the work, or the task, fails always: do not try it again.
type Refused struct{ Reason string }

func (refused *Refused) Error() string { return refused.Reason }

// Unavailable means that the server did not take the request now, or that its answer was lost.
// Send the same again, after Wait at the earliest.
type Unavailable struct {
	Reason string
	Wait   time.Duration
}

func (unavailable *Unavailable) Error() string { return unavailable.Reason }

// Client may be used by any goroutine.
type Client struct {
	URL, Token string
	HTTP       http.Client
}

// Submit hands over 1 to 1,000 tasks, committed when it returns, with one answer for each. A task
// needs an IdempotencyKey, by which it is the same task when it is sent again. The error is a
// *Refused or an *Unavailable.
func (client *Client) Submit(ctx context.Context, tasks []Task) ([]Answer, error) {
	var answers []Answer
	if err := client.post(ctx, "/v1/tasks", tasks, &answers); err != nil {
		return nil, err
	}
	if len(answers) != len(tasks) {
		return nil, &Unavailable{"not one answer for each task", 0}
	}
	return answers, nil
}

// Beat names a client that takes the tasks of a group at an address.
type Beat struct {
	Group         string `json:"group"`
	Address       string `json:"address"`
	Version       string `json:"version"`
	FailedReports int64  `json:"failedReports"`
}

// BeatAnswer tells when to beat again, and the version of the group's configuration.
type BeatAnswer struct {
	ConfigVersion string `json:"configVersion"`
	BeatMs        int64  `json:"beatMs"`
}

// Beat registers the process for 90 seconds.
func (client *Client) Beat(ctx context.Context, beat Beat) (BeatAnswer, error) {
	var answer BeatAnswer
	err := client.post(ctx, "/v1/clients/beat", beat, &answer)
	return answer, err
}

// KeepBeating beats every 30 seconds until ctx ends. failed is the number of failed reports so far,
// as Reporter.FailedCalls; each is told once.
func (client *Client) KeepBeating(ctx context.Context, beat Beat, failed func() int64) {
	told, wait := int64(0), 30*time.Second
	for ctx.Err() == nil {
		now := failed()
		beat.FailedReports = now - told
		answer, err := client.Beat(ctx, beat)
		if err == nil {
			told, wait = now, time.Duration(answer.BeatMs)*time.Millisecond
		} else {
			fmt.Fprintln(os.Stderr, "no beat:", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// post decodes the answer into out. The error is a *Refused or an *Unavailable.
func (client *Client) post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return &Refused{err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	url := strings.TrimRight(client.URL, "/") + path
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return &Unavailable{err.Error(), 0}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+client.Token)
	response, err := client.HTTP.Do(request)
	if err != nil {
		return &Unavailable{err.Error(), 0}
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		reason := fmt.Sprintf("status %d: %s", response.StatusCode, text)
		switch response.StatusCode {
		case 400, 409, 413, 422: // they mean the tasks; others mean the server or the token
			return &Refused{reason}
		}
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		return &Unavailable{reason, time.Duration(seconds) * time.Second}
	}
	if err := json.NewDecoder(response.Body).Decode(out); err != nil {
		return &Unavailable{err.Error(), 0}
	}
	return nil
}

// Reporter tries work here, and hands over what keeps failing. Tasks wait in a window in memory and
// are sent by a goroutine, batchMax at a time or when the first has waited for a second. A crash of
// the process loses the window; Close sends it. Any goroutine may call a reporter.
type Reporter struct {
	client    *Client
	onRefused func(Task, string)
	window    chan Task
	pending   []Task // of the goroutine alone, as the counts until Close has returned
	closing   chan struct{}
	ended     chan struct{}
	lock      sync.RWMutex // guards closed
	closed    bool
	deadline  time.Time

	Reported, Refused, FailedCalls int
	LastError                      string
}

// NewReporter starts a reporter. onRefused learns of tasks that can never be taken.
func NewReporter(client *Client, window int, onRefused func(Task, string)) *Reporter {
	reporter := &Reporter{client: client, onRefused: onRefused, window: make(chan Task, window),
		closing: make(chan struct{}), ended: make(chan struct{})}
	go reporter.sendAll()
	return reporter
}

// Attempt returns "done" if work succeeded, else "queued locally": the task is in the window. A full
// window makes the caller wait. A *Refused of work is returned as it is.
func (reporter *Reporter) Attempt(work func() error, task Task, attempts int, wait time.Duration) (string, error) {
	for attempt := 1; attempt <= attempts; attempt++ {
		err := work()
		var refused *Refused
		if err == nil {
			return "done", nil
		} else if errors.As(err, &refused) {
			return "", err
		} else if attempt < attempts {
			time.Sleep(spread(wait << (attempt - 1)))
		}
	}
	if task.IdempotencyKey == "" {
		task.IdempotencyKey = randomName()
	}
	// Close waits for this lock before it ends the window.
	reporter.lock.RLock()
	defer reporter.lock.RUnlock()
	if reporter.closed {
		return "", &Unavailable{"the reporter is closed", 0}
	}
	reporter.window <- task
	return "queued locally", nil
}

// Close sends the window, and returns the tasks that could not be sent in time.
func (reporter *Reporter) Close(limit time.Duration) []Task {
	reporter.lock.Lock()
	first := !reporter.closed
	reporter.closed = true
	if first {
		reporter.deadline = time.Now().Add(limit)
		close(reporter.closing)
		close(reporter.window)
	}
	reporter.lock.Unlock()
	<-reporter.ended
	lost := reporter.pending
	for task := range reporter.window {
		lost = append(lost, task)
	}
	return lost
}

func (reporter *Reporter) sendAll() {
	defer close(reporter.ended)
	size, wait := batchMax, waitMin
	for reporter.fill(size) {
		batch := reporter.pending[:min(size, len(reporter.pending))]
		answers, err := reporter.client.Submit(context.Background(), batch)
		var refused *Refused
		var kept []Task
		switch {
		case err == nil:
			kept, err = reporter.readAnswers(batch, answers)
			size = min(size*2, batchMax)
		case errors.As(err, &refused) && len(batch) > 1: // too large together, or one is in the others' way
			size = len(batch) / 2
			continue
		case errors.As(err, &refused):
			reporter.refuse(batch[0], refused.Reason)
			err = nil
		default:
			kept = batch
		}
		reporter.pending = append(append([]Task(nil), kept...), reporter.pending[len(batch):]...)
		if err == nil {
			wait = waitMin
			continue
		}
		reporter.pause(err, wait)
		wait = min(wait*2, waitMax)
	}
}

// fill waits for tasks; false: there is nothing to send, or no time.
func (reporter *Reporter) fill(size int) bool {
	window, closing := reporter.window, reporter.closing
	if len(reporter.pending) == 0 {
		task, open := <-window
		if !open {
			return false
		}
		reporter.pending = append(reporter.pending, task)
	}
	flush := time.NewTimer(time.Second)
	defer flush.Stop()
	for len(reporter.pending) < size && window != nil {
		select {
		case task, open := <-window:
			if !open {
				window = nil
				continue
			}
			reporter.pending = append(reporter.pending, task)
			continue
		default:
		}
		select {
		case task, open := <-window:
			if open {
				reporter.pending = append(reporter.pending, task)
			} else {
				window = nil
			}
		case <-flush.C:
			window = nil
		case <-closing:
			closing = nil // the closed window ends the loop
		}
	}
	select {
	case <-reporter.closing:
		return time.Now().Before(reporter.deadline)
	default:
		return true
	}
}

func (reporter *Reporter) readAnswers(batch []Task, answers []Answer) (kept []Task, why error) {
	for i, answer := range answers {
		switch {
		case answer.Error == nil:
			reporter.Reported++
		case answer.Error.Code == "too_many_requests", answer.Error.Code == "unavailable",
			answer.Error.Code == "timeout":
			kept = append(kept, batch[i])
			why = &Unavailable{answer.Error.Message, 0}
		default:
			reporter.refuse(batch[i], answer.Error.Code+": "+answer.Error.Message)
		}
	}
	return kept, why
}

func (reporter *Reporter) refuse(task Task, reason string) {
	reporter.Refused++
	reporter.onRefused(task, reason)
}

// pause waits after a failed request. Close shortens it.
func (reporter *Reporter) pause(err error, wait time.Duration) {
	reporter.FailedCalls++
	reporter.LastError = err.Error()
	pause := spread(wait)
	var unavailable *Unavailable
	if errors.As(err, &unavailable) {
		pause = max(pause, unavailable.Wait)
	}
	select {
	case <-time.After(pause):
	case <-reporter.closing:
		time.Sleep(min(pause, waitMin))
	}
}

// spread keeps processes from trying again at the same time.
func spread(wait time.Duration) time.Duration {
	return time.Duration(float64(wait) * (0.5 + rand.Float64()))
}

func randomName() string {
	name := make([]byte, 16)
	if _, err := crand.Read(name); err != nil {
		panic(err)
	}
	return hex.EncodeToString(name)
}

// Webhook receives the calls of the handler `http`. A task may be called again after it took effect:
// keep the Idempotency-Key with the effect, in one transaction of your database; here it is in memory.
type Webhook struct {
	failures int
	lock     sync.Mutex
	calls    map[string]int
	done     map[string]bool
}

func (webhook *Webhook) ServeHTTP(out http.ResponseWriter, request *http.Request) {
	var params any
	if err := json.NewDecoder(request.Body).Decode(&params); err != nil && err != io.EOF {
		// This header ends the task.
		out.Header().Set("tallybox-no-retry", "1")
		out.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	if strings.HasSuffix(request.URL.Path, "/tallybox/config") {
		config, _ := params.(map[string]any)
		printJSON(map[string]any{"config": config["version"]})
		return
	}
	key := request.Header.Get("Idempotency-Key")
	attempt, _ := strconv.Atoi(request.Header.Get("tallybox-attempt"))
	webhook.lock.Lock()
	defer webhook.lock.Unlock()
	webhook.calls[key]++
	result := "done"
	if webhook.done[key] {
		result = "repeated"
	} else if webhook.calls[key] <= webhook.failures {
		result = "failed"
	} else {
		webhook.done[key] = true
	}
	printJSON(map[string]any{"result": result, "key": key, "params": params, "attempt": attempt})
	if result == "failed" { // tried again
		out.WriteHeader(http.StatusServiceUnavailable)
	}
}

func printJSON(value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func receive(port string, failures int) error {
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &Webhook{failures: failures, calls: map[string]int{}, done: map[string]bool{}}}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	ended := make(chan error, 1) // with the last call, which is after the end of Serve
	go func() {
		<-stop.Done()
		ended <- server.Shutdown(context.Background())
	}()
	printJSON(map[string]any{"listening": listener.Addr().(*net.TCPAddr).Port})
	if group := os.Getenv("TALLYBOX_GROUP"); group != "" {
		beat := Beat{Group: group, Address: "http://" + listener.Addr().String(), Version: "go"}
		go makeClient().KeepBeating(stop, beat, func() int64 { return 0 })
	}
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return <-ended
}

func makeClient() *Client {
	url := os.Getenv("TALLYBOX_URL")
	if url == "" {
		url = "http://127.0.0.1:8080"
	}
	return &Client{URL: url, Token: os.Getenv("TALLYBOX_TOKEN")}
}

func report(count int, webhook string) error {
	reporter := NewReporter(makeClient(), 1000, func(task Task, reason string) {
		fmt.Fprintf(os.Stderr, "refused: %s: %s\n", task.IdempotencyKey, reason)
	})
	run := randomName()[:8]
	for number := 0; number < count; number++ {
		outcome, err := reporter.Attempt(
			func() error { return errors.New("the other system does not answer") },
			Task{Scene: "webhook", Handler: "http", BizNo: strconv.Itoa(number),
				IdempotencyKey: fmt.Sprintf("%s/%d", run, number),
				Options:        map[string]any{"url": webhook},
				Params:         map[string]any{"number": number}}, 3, time.Millisecond)
		if err != nil {
			return err
		}
		fmt.Println(outcome)
	}
	lost := reporter.Close(30 * time.Second)
	printJSON(map[string]any{"reported": reporter.Reported, "refused": reporter.Refused,
		"lost": len(lost), "failedCalls": reporter.FailedCalls})
	if len(lost) > 0 || reporter.Refused > 0 {
		return errors.New("not all tasks were handed over; last error: " + reporter.LastError)
	}
	return nil
}

func run(words []string) error {
	number := func(at int) int {
		value := 0
		if at < len(words) {
			value, _ = strconv.Atoi(words[at])
		}
		return value
	}
	switch {
	case (len(words) == 2 || len(words) == 3) && words[0] == "receive":
		return receive(words[1], number(2))
	case len(words) == 3 && words[0] == "report":
		return report(number(1), words[2])
	}
	fmt.Fprintln(os.Stderr, "usage: tallybox_tasks receive PORT [FAILURES] | report COUNT WEBHOOK")
	os.Exit(2)
	return nil
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
