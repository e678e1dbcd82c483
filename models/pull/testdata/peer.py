"""Does what Python programs do with the Hugging Face cache, for TestPythonFindsWhatWePulled and its reverse.

usage: peer.py pull|find REPO FILE...
"""
import json
import sys

import huggingface_hub as hub

what, repo, *files = sys.argv[1:]
if what == "pull":
    folder = hub.snapshot_download(repo)
else:
    folder = hub.snapshot_download(repo)  # offline: from the cache alone
    for file in files:
        hub.hf_hub_download(repo, file)
scan = hub.scan_cache_dir()
print(json.dumps({
    "folder": folder,
    "warnings": [str(w) for w in scan.warnings],
    "incomplete": len(scan.incomplete_files),
    "files": {f.file_name: f.size_on_disk for r in scan.repos for v in r.revisions for f in v.files},
    "refs": sorted(ref for r in scan.repos for v in r.revisions for ref in v.refs),
}))
