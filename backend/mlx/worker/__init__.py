"""The MLX engine of runner: a process that speaks docs/engine-protocol.md on descriptors 3 and 4.

It does not sample. It writes rows of logits to the file at descriptor 5, and the runner chooses tokens.

One thread reads descriptor 3. It sees cancellations and the end of the runner, also during a step. The main thread does
everything else. MLX is used by the main thread alone, because its streams belong to a thread.

Every error that is not the runner's ends the process: the state of a model after a failed computation is not known, and
the runner starts a new process and feeds the sequences again.

The modules, each of which uses only those above it:

- protocol: frames, errors and progress
- libraries: MLX and mlx-lm, which are imported when a model is loaded
- memory: the limit of memory, and the sizes that fit into it
- caches: the caches of one sequence, and copies of them
- model: loading a model and running it
- sequences: the open sequences, and the batch that some of them are in
- steps: a step
- engine: the requests of the runner
- main: the process
"""
