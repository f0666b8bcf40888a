// Every constant of the policies in one table, each with its source. Nothing is tuned to a result.
//
//   PolicyConstants constants = ConstantsFor(job);
//   RC_RETURN_IF_ERROR(SetConstant("recycle.detect_s=1", constants));
//   for (const ConstantInfo& info : ConstantTable()) print(info.name, constants.*info.value, ...);
//
// The rows that depend on the model are those of Oobleck's artifact (SymbioticLab/Oobleck, branch
// sosp23-artifact, tools/simulator). Plain data.
#ifndef RECYCLE_SIMULATOR_POLICY_CONSTANTS_H_
#define RECYCLE_SIMULATOR_POLICY_CONSTANTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/simulator/simulated_job.h"

namespace recycle {

struct RestartConstants {
  double detect_s = 2;
  double restart_s = 701;
  double checkpoint_s = 120;
  double interval_s = 0;  // between checkpoints; 0: Young's, sqrt(2 * checkpoint * MTBF)
};

struct PolicyConstants {
  std::string model_row;  // which row of the model-dependent constants holds

  double recycle_detect_s = 2;
  double recycle_resume_s = 0.25;
  double recycle_state_bytes = 16;  // per parameter, copied to a worker that takes a place
  double recycle_copy_gb_per_s = 10;
  RestartConstants restart;
  RestartConstants spares;
  RestartConstants varuna;
  double varuna_iterations = 10;  // at least so many between checkpoints
  double elastic_detect_s = 2;
  double elastic_regroup_s = 10;
  double bamboo_detect_s = 2;
  double bamboo_reconfigure_s = 450;
  double bamboo_throughput = 0.72;  // of 1F1B, without failures
  double oobleck_detect_s = 2;
  double oobleck_reconfigure_s = 10;
  double instance_usable_s = 45;  // from a new instance's first line in the trace
  double gpu_hour = 2;            // US dollars
};

struct ConstantInfo {
  std::string_view name;  // as --set has it, unit last
  std::string_view source;
};

// All of them, in the order of print.
const std::vector<ConstantInfo>& ConstantTable();
// `name` is one of ConstantTable().
double ConstantValue(const PolicyConstants& constants, std::string_view name);

// The constants of a job: the row of its model by name, else by the nearest number of parameters.
PolicyConstants ConstantsFor(const SimulatedJob& job);

// "recycle.detect_s=1"; "detect_s=1" sets every policy's. Error: kInvalidArgument naming the
// nearest known name, or a value that is no number of 0 or more.
Status SetConstant(std::string_view assignment, PolicyConstants& constants);

// The published throughput of Oobleck on A40 nodes, 30 live nodes down to 15, in samples per second
// (oobleck_simulator.py); nullptr where the row of `model_row` has none.
const std::vector<double>* PublishedOobleckCurve(std::string_view model_row);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_POLICY_CONSTANTS_H_
