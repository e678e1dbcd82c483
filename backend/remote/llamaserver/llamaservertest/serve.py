"""Serves a GGUF file with llama-server until standard input ends. Prints the address first."""
import json
import os
import sys

import xllamacpp

options = json.loads(sys.argv[1])
params = xllamacpp.CommonParams()
params.model.path = options["model"]
params.n_ctx = options["context"] * options["parallel"]
params.n_parallel = options["parallel"]
params.port = options["port"]
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options["threads"]
if options["precise"]:
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.swa_full = True
if options["key"]:
    params.api_keys = [options["key"]]
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
os._exit(0)
