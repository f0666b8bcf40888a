// A file of lines that several threads append to: each line is one write(2), so that what a killed
// process leaves behind ends in a whole line, or in a part of its last one.
//
//   LineFile file(options.trace_file, "trace");
//   file.Append(R"({"a":"0F1.3"})");
//
// A file that cannot be written (a full disk) ends with one log line; training goes on.
// Thread-safe.
#ifndef RECYCLE_EXECUTOR_LINE_FILE_H_
#define RECYCLE_EXECUTOR_LINE_FILE_H_

#include <atomic>
#include <string>

namespace recycle {

class LineFile {
 public:
  // Appends to what is there. An empty `path`: no file. `what` is for the log.
  LineFile(std::string path, std::string what);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  bool on() const { return on_; }
  // `line` without its end.
  void Append(std::string line);

 private:
  void GiveUp(int error);

  const std::string path_;
  const std::string what_;
  int file_ = -1;
  std::atomic<bool> on_ = false;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_LINE_FILE_H_
