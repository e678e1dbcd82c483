# Builds runner from source: HOMEBREW_RUNNER_SOURCE=file:///path/to/checkout brew install --HEAD ./runner.rb
# The variable has the folder or the address of the git repository. "make dist SOURCE_URL=..." leaves a formula in dist
# that has the address in it.
class Runner < Formula
  desc "Local model runner that shows as much of the reasoning as you ask for"
  homepage ENV.fetch("HOMEBREW_RUNNER_SOURCE", "file:///usr/local/src/runner")
  license "MIT"
  head ENV.fetch("HOMEBREW_RUNNER_SOURCE", "file:///usr/local/src/runner"), using: :git, branch: "main"

  depends_on "go" => :build

  def install
    system "make", "build", "PORTABLE=1"
    bin.install "bin/runner"
    system "go", "run", "./scripts/clidocs", "-version", version.to_s, "man", "man1"
    man1.install Dir["man1/*.1"]
    generate_completions_from_executable(bin/"runner", "completion")
  end

  service do
    run [opt_bin/"runner", "serve"]
    keep_alive successful_exit: false
    log_path var/"log/runner.log"
    error_log_path var/"log/runner.log"
  end

  test do
    assert_match "42", shell_output("#{bin}/runner run --temperature 0 'What is 17 + 25?'")
  end
end
