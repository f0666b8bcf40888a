#include "recycle/app/checkpoint_source.h"

#include <utility>

#include "recycle/base/log.h"

namespace recycle {

CheckpointSource::Choice CheckpointSource::Choose(std::optional<int> failed) {
  Choice result;
  if (failed) {
    const Status noted = folder_.Attempts().Failed(CheckpointName(*failed));
    if (!noted.ok()) result.notes.push_back(std::string(noted.message()));
  }
  StatusOr<ResumeChoice> choice = folder_.ChooseForResume();
  if (!choice.ok()) {
    result.why = std::string(choice.status().message());
    return result;
  }
  result.notes.insert(result.notes.end(), choice->notes.begin(), choice->notes.end());
  result.iteration = choice->checkpoint.manifest.iteration;
  const Status begun = Begin(*result.iteration);
  if (!begun.ok()) result.notes.push_back(std::string(begun.message()));
  return result;
}

Status CheckpointSource::Begin(int iteration) {
  return folder_.Attempts().Begin(CheckpointName(iteration));
}

void CheckpointSource::NoteLoaded(int iteration) {
  const Status forgotten = folder_.Attempts().Forget(CheckpointName(iteration));
  if (!forgotten.ok()) LogWarning("{}", std::string(forgotten.message()));
}

}  // namespace recycle
