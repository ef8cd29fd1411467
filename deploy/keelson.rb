class Keelson < Formula
  desc "Kubernetes API for custom resources, without the rest of Kubernetes"
  homepage "https://github.com/keelson-io/keelson"
  version "<<.Version>>"
  license "Apache-2.0"
<<- range .Archives>><<if ne .OS "windows">>

  if OS.<<if eq .OS "darwin">>mac<<else>>linux<<end>>? && Hardware::CPU.<<if eq .Arch "arm64">>arm<<else>>intel<<end>>?
    url "https://github.com/keelson-io/keelson/releases/download/v<<$.Version>>/<<.Name>>"
    sha256 "<<.Sum>>"
  end
<<- end>><<end>>

  def install
    bin.install "keelson"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/keelson.bash" => "keelson"
    zsh_completion.install "completions/keelson.zsh" => "_keelson"
    fish_completion.install "completions/keelson.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/keelson --version")
  end
end
